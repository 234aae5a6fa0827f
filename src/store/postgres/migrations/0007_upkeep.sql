-- History rows carry one key of their event, bodies that outlive their day are kept once, and upkeep
-- has one leader.

-- The key of a test event in the history: below zero, where no offset is. As testKeyOf in
-- rows/attempts.ts.
create function leat_test_key(event_id text) returns bigint language sql immutable strict
  parallel safe return
  -1 - (('x' || left(encode(sha256(convert_to(event_id, 'UTF8')), 'hex'), 13))::bit(52)::bigint);

drop index attempts_offset;
drop index attempts_test;
alter table attempts rename column "offset" to event_key;
update attempts set event_key = leat_test_key(event_id) where event_id is not null;
alter table attempts drop column event_id;
alter table attempts alter column event_key set not null;
create index attempts_key on attempts (tenant, stream_key, event_key);

-- Events whose day is gone and that open deliveries still need, each once however many need it.
create table kept_events (
  tenant integer not null,
  "offset" bigint not null,
  id text collate "C" not null,
  body text not null,
  trace text,
  primary key (tenant, "offset")
);

insert into kept_events (tenant, "offset", id, body, trace)
  select distinct on (tenant, "offset") tenant, "offset", event_id, body, trace from deliveries
  where "offset" is not null and body is not null
  order by tenant, "offset";

-- Day (UTC) on which the event was published, or the test event made: its history has no older
-- entry. Null where it is not known.
alter table deliveries add column first_day integer;
update deliveries d set first_day = e.published_at / 86400000, body = null, trace = null
  from events e where e.tenant = d.tenant and e."offset" = d."offset";
update deliveries set body = null, trace = null where "offset" is not null and body is not null;

-- At or before the instant at which the oldest event that is not pruned was published.
alter table tenants add column oldest_at bigint not null default 0;

-- 'lag', when the stream was disabled because its oldest unsent event was too old.
alter table streams add column disabled_reason text collate "C";
-- Percentage of the bound on lag that was reported last.
alter table streams add column lag_told integer not null default 0;

drop index replays_finished;
create index replays_finished on replays (finished_at) where finished_at is not null;

-- Who does upkeep for all nodes.
create table upkeep (
  id integer primary key check (id = 1),
  leader text collate "C" not null,
  lease_until timestamptz not null
);
