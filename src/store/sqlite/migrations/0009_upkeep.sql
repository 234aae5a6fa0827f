-- History rows carry one key of their event, and bodies that outlive the log are kept once.

-- Below zero for a test event, see testKeyOf in rows/attempts.ts.
create table attempts_new (
  stream_key integer not null,
  event_key integer not null,
  at integer not null,
  duration_ms real not null,
  outcome integer not null,                     -- 1 delivered, 2 failed, 3 redelivered
  status integer,
  error text
) strict;

insert into attempts_new (rowid, stream_key, event_key, at, duration_ms, outcome, status, error)
select rowid, stream_key, coalesce(offset, leat_test_key(event_id)), at, duration_ms, outcome,
  status, error
from attempts order by rowid;

drop table attempts;
alter table attempts_new rename to attempts;
create index attempts_key on attempts (stream_key, event_key);

-- Entries that open deliveries still need, older than the others are kept. `number` is the rowid
-- that the entry had in attempts.
create table attempts_kept (
  number integer primary key,
  stream_key integer not null,
  event_key integer not null,
  at integer not null,
  duration_ms real not null,
  outcome integer not null,
  status integer,
  error text
) strict;

create index attempts_kept_key on attempts_kept (stream_key, event_key);

-- Pruned events that open deliveries still need, each once however many need it.
create table kept_events (
  tenant integer not null,
  offset integer not null,
  id text not null,
  body text not null,
  trace text,
  primary key (tenant, offset)
) strict;

insert into kept_events (tenant, offset, id, body, trace)
select tenant, offset, event_id, body, trace from deliveries
where offset is not null and body is not null
on conflict do nothing;

update deliveries set body = null, trace = null where offset is not null and body is not null;

-- 'lag', when the stream was disabled because its oldest unsent event was too old.
alter table streams add column disabled_reason text;
-- Percentage of the bound on lag that was reported last.
alter table streams add column lag_told integer not null default 0;

drop index replays_finished;
create index replays_finished on replays (finished_at) where finished_at is not null;

-- Finds the delivery of an entry of the history.
create index deliveries_offset on deliveries (tenant, stream, offset);
