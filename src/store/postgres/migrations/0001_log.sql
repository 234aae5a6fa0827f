-- The event log, the streams that read it, and what is left of their deliveries.
-- Times are integer milliseconds since the epoch. Every key begins with the tenant, so that tenants
-- can be spread over several databases. Keys compare by their bytes (collation C), as the other
-- engine compares them, whatever the language of the database is.

create table tenants (
  id integer primary key generated always as identity,
  name text collate "C" not null unique,
  domain text collate "C" not null unique,
  head bigint not null default 0,               -- last offset given out
  last_published_at bigint not null default 0,  -- published_at of that event
  pruned_to bigint not null default 0,          -- events up to here are gone, whatever is still stored
  created_at bigint not null
) with (fillfactor = 50);

-- A partition for each day. Events leave the log by tenants.pruned_to; a day goes as a whole, once
-- none of its events is left. See days.ts.
create table events (
  tenant integer not null,
  "offset" bigint not null,
  id text collate "C" not null,
  type text collate "C" not null,
  time bigint not null,
  published_at bigint not null,                 -- never falls along the log
  body text not null
) partition by range (published_at);

-- Unique by the lock on the tenant under which events are appended: an index can be so only together
-- with the instant, and is a second guard.
create index events_offset on events (tenant, "offset");
create unique index events_id on events (tenant, id, published_at);

create table streams (
  tenant integer not null,
  id text collate "C" not null,
  name text collate "C" not null,
  status text not null check (status in ('enabled', 'disabled')),
  subscriptions text not null,                  -- [{"after": offset, "types": [...]}, ...]
  destination bytea not null,                   -- sealed JSON
  signing_secrets bytea not null,               -- sealed JSON
  version integer not null,
  created_at bigint not null,
  updated_at bigint not null,
  primary key (tenant, id),
  unique (tenant, name)
);

-- What moves while a stream runs: narrow and hot. Whoever changes a stream, its deliveries or its
-- run locks the row first. `key` stands for the stream in attempts.
create table runs (
  key bigint not null generated always as identity,
  tenant integer not null,
  stream text collate "C" not null,
  cursor bigint not null,
  run integer not null,                         -- how often the stream was enabled
  consecutive_failures integer not null,
  total_failures integer not null,
  owner text collate "C",
  epoch integer not null,                       -- how often the stream was claimed
  claim integer not null default 0,             -- which claim of its owner took the stream
  unseen boolean not null default false,        -- the owner works by the stream before a change
  primary key (tenant, stream)
) with (fillfactor = 50);

create index runs_free on runs (tenant, stream) where owner is null;
create index runs_owner on runs (owner) where owner is not null;

-- Leases are by the clock of the server.
create table nodes (
  id text collate "C" primary key,
  incarnation integer not null,
  lease_until timestamptz not null,
  freed boolean not null default false,         -- it had ended, and others may have its streams
  last_batch integer not null default 0,        -- of this incarnation
  last_claim integer not null default 0         -- of this incarnation
) with (fillfactor = 50);

create table deliveries (
  tenant integer not null,
  stream text collate "C" not null,
  event_id text collate "C" not null,
  "offset" bigint,                              -- null for a test event
  type text collate "C" not null,
  time bigint not null,
  kind text not null check (kind in ('first', 'redelivery', 'test')),
  state text not null check (state in ('parked', 'retrying', 'failed')),
  attempt integer not null,
  due_at bigint check ((due_at is null) = (state = 'failed')),
  failed_at bigint check ((failed_at is not null) = (state = 'failed' or kind = 'redelivery')),
  body text,                                    -- only while the log does not have the event
  primary key (tenant, stream, event_id)
);

create index deliveries_due on deliveries (tenant, stream, due_at) where due_at is not null;
create index deliveries_failed on deliveries (tenant, stream, failed_at, event_id)
  where failed_at is not null;
-- Idempotency of pruned events, and pruning itself.
create index deliveries_event on deliveries (tenant, event_id);

-- The history, insert only, a partition for each day. Of a day that goes, the attempts of open
-- deliveries move to day 0.
create sequence attempts_number as bigint;

create table attempts (
  day integer not null,                         -- of `at`, in days since the epoch
  tenant integer not null,
  stream_key bigint not null,
  "offset" bigint,                              -- null for a test event
  event_id text collate "C",                    -- of a test event only
  at bigint not null,
  duration_ms double precision not null,
  outcome smallint not null,                    -- 1 delivered, 2 failed, 3 redelivered
  status integer,
  error text,
  number bigint not null default nextval('attempts_number') -- in the order in which they ended
) partition by range (day);

create index attempts_offset on attempts (tenant, stream_key, "offset") where "offset" is not null;
create index attempts_test on attempts (tenant, stream_key, event_id) where event_id is not null;

create table attempts_kept partition of attempts for values from (0) to (1);

create table stream_stats (
  tenant integer not null,
  stream text collate "C" not null,
  hour bigint not null,                         -- its first millisecond
  delivered integer not null,
  failed integer not null,
  primary key (tenant, stream, hour)
) with (fillfactor = 50);

-- Appends events at the next offsets. One statement, and so one round trip, from the lock on the
-- tenant to the commit: no process holds the lock while it is slow, frozen or cut off. Each statement
-- in here sees what was committed before it began, so the look-up, which follows the lock, sees
-- every event that has an offset. The lock makes offset order equal commit order: a reader at the
-- head can never pass an event that commits later.
--
-- Ids must differ. Answers the head before, after which the new events follow in the order of the
-- arrays; the instant of this append; and the chosen ids that were there already, with their offsets.
-- All of it is null when there is no such tenant.
create function leat_append(
  the_tenant integer, now_ms bigint, ids text[], chosen boolean[], types text[], times bigint[],
  bodies text[], out head bigint, out published_at bigint, out known text[], out known_at bigint[]
) language plpgsql as $$
declare
  pruned bigint;
begin
  select t.head, greatest(now_ms, t.last_published_at), t.pruned_to
    into leat_append.head, leat_append.published_at, pruned
    from tenants t where t.id = the_tenant for no key update;
  if not found then return; end if;

  if true = any(chosen) then
    select array_agg(k.id), array_agg(k.at) into known, known_at from (
      select distinct on (id) id, at from (
        select e.id, e."offset" as at, 1 as source from events e
          where e.tenant = the_tenant and e."offset" > pruned
            and e.id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
        union all
        select d.event_id, d."offset", 2 from deliveries d
          where d.tenant = the_tenant and d."offset" is not null
            and d.event_id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
      ) as found order by id, source
    ) as k;
  end if;

  insert into events (tenant, "offset", id, type, time, published_at, body)
    select the_tenant, leat_append.head + row_number() over (order by u.n), u.id, u.type, u.time,
      leat_append.published_at, u.body
    from unnest(ids, types, times, bodies) with ordinality as u(id, type, time, body, n)
    where known is null or u.id <> all(known)
    order by u.n;
  if not found then return; end if;

  update tenants t set
    head = t.head + cardinality(ids) - coalesce(cardinality(known), 0),
    last_published_at = leat_append.published_at
  where t.id = the_tenant;
end $$;
