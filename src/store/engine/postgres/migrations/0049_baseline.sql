-- Times are integer milliseconds since the epoch, by the clock of the server. Keys begin with the tenant,
-- so that tenants can be spread over several databases, and compare by their bytes (collation C), as in
-- SQLite, whatever the language of the database is.

-- The time of the server: every instant that deliveries, retention and leases depend on is read from here,
-- so nodes whose clocks differ change nothing.
create function leat_now() returns bigint language sql volatile parallel safe
  return floor(extract(epoch from clock_timestamp()) * 1000)::bigint;

-- Tenants

create table tenants (
  id integer primary key generated always as identity,
  name text collate "C" not null unique,
  domain text collate "C" not null unique,
  head bigint not null default 0,               -- last offset given out
  last_published_at bigint not null default 0,  -- published_at of that event
  pruned_to bigint not null default 0,          -- events up to here are gone, whatever is still stored
  created_at bigint not null,
  -- At or before the instant at which the oldest event that is not pruned was published.
  oldest_at bigint not null default 0,
  -- Of the hashes in events.content. It differs from tenant to tenant.
  content_key bytea not null default uuid_send(gen_random_uuid())
) with (fillfactor = 50);

-- Tenants that are being deleted: their row has left tenants, their data follows step by step.
create table leaving_tenants (
  id integer primary key,                       -- of the row that left tenants
  name text collate "C" not null unique,
  domain text collate "C" not null,
  begun_at timestamptz not null default clock_timestamp()
);

-- Events

-- A partition for each day. Events leave the log by tenants.pruned_to; a day goes as a whole, once
-- none of its events is left. See partitions.ts.
create table events (
  tenant integer not null,
  "offset" bigint not null,
  id text collate "C" not null,
  type text collate "C" not null,
  time bigint not null,
  published_at bigint not null,                 -- never falls along the log
  body text not null,
  trace text,                                   -- W3C traceparent of the request that published it
  -- A keyed hash of type and data of an event whose id its publisher chose (rules/content.ts); null for
  -- others, and for some events from before there was one.
  content bytea
) partition by range (published_at);

-- Unique by the lock on the tenant under which events are appended: an index can be so only together
-- with the instant, and is a second guard.
create index events_offset on events (tenant, "offset");
create unique index events_id on events (tenant, id, published_at);

-- On which day each part of a log was published, so that a statement names the days it reads: one
-- without a bound on published_at opens every partition, 0.15 ms for each day that is retained.
--
-- A row for each day on which a tenant published. published_at never falls along a log, so an offset
-- belongs to the day of the last row at or before it. A missing row makes readers open more days
-- than they need, and nothing else.
create table log_days (
  tenant integer not null,
  first_offset bigint not null,                 -- of the first event of the day
  day integer not null,                         -- UTC, in days since the epoch
  former_at bigint,                             -- published_at of the event before; null: not known
  primary key (tenant, first_offset)
);

-- Events whose day is gone and that open deliveries still need, each once however many need it.
create table kept_events (
  tenant integer not null,
  "offset" bigint not null,
  id text collate "C" not null,
  body text not null,
  trace text,
  primary key (tenant, "offset")
);

-- The types of the events in the log, with the newest event of each. Nodes remember types in memory and write
-- them every few seconds: an index on the type would cost each publish.
create table event_types (
  tenant integer not null,
  type text collate "C" not null,
  last_offset bigint not null,
  last_seen_at bigint not null,
  primary key (tenant, type)
);

-- Adds the rows of all events that are stored to log_days, from the beginning of each partition, the newest
-- first: the end of one is before the beginning of a row that is there already.
create function leat_fill_log_days() returns void language plpgsql as $$
declare
  the_day integer;
begin
  for the_day in
    select substring(c.relname from '\d+$')::integer
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'events'::regclass and not i.inhdetachpending
    order by 1 desc
  loop
    execute format('
      insert into log_days (tenant, first_offset, day)
      select t.id, e."offset", %1$s from tenants t cross join lateral (
        select "offset" from events_d%1$s where tenant = t.id order by "offset" limit 1) as e
      on conflict do nothing', the_day);
    execute format('
      update log_days d set former_at = e.published_at
      from tenants t cross join lateral (
        select "offset", published_at from events_d%1$s
        where tenant = t.id order by "offset" desc limit 1) as e
      where d.tenant = t.id and d.first_offset = e."offset" + 1 and d.former_at is null', the_day);
  end loop;
end $$;

-- The events after one offset up to another, but of so many days from the first on at most, days
-- without events included: the last of them, and the instants between which they were published.
create function leat_stretch(
  the_tenant integer, after_offset bigint, last_offset bigint, days_max integer
) returns table (up_to bigint, from_at bigint, to_at bigint) language sql stable rows 1 as $$
  select least(last_offset, beyond.first_offset - 1), first.day * 86400000::bigint,
    coalesce((
      select coalesce(d.former_at + 1, d.day * 86400000::bigint) from log_days d
      where d.tenant = the_tenant and d.first_offset > least(last_offset, beyond.first_offset - 1)
      order by d.first_offset limit 1),
      (select t.last_published_at + 1 from tenants t where t.id = the_tenant), 9007199254740991)
  from (
    select coalesce((
      select d.day from log_days d
      where d.tenant = the_tenant and d.first_offset <= after_offset + 1
      order by d.first_offset desc limit 1), 0) as day) as first
  left join lateral (
    select d.first_offset from log_days d
    where d.tenant = the_tenant and d.first_offset > after_offset + 1
      and d.day >= first.day + days_max
    order by d.first_offset limit 1) as beyond on true
$$;

-- When the event at an offset was published; null when the log does not have it. The statement is
-- planned at each call, with the day as a constant: a plan that is kept locks every partition.
create function leat_published_at(the_tenant integer, the_offset bigint)
returns bigint language plpgsql stable as $$
declare
  day record;
  published bigint;
begin
  select * into day from leat_stretch(the_tenant, the_offset - 1, the_offset, 1);
  execute 'select published_at from events
      where tenant = $1 and "offset" = $2 and published_at >= $3 and published_at < $4 limit 1'
    into published using the_tenant, the_offset, day.from_at, day.to_at;
  return published;
end $$;

-- Streams

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
  -- When a limit disabled the stream last. It stays when somebody enables it, so that it is reported.
  disabled_at bigint,
  disabled_reason text collate "C",             -- by_hand, consecutive_failures, open_failures or lag
  lag_reported integer not null default 0,      -- percentage of the bound on lag that was reported last
  lag_at bigint not null default 0,             -- of that report, or when the stream was disabled for lag
  delivery text,                                -- how events are delivered: JSON; null where nothing is set
  -- 1 if the newest selection has a filter: the filters of a tenant are counted.
  filtered integer not null default 0,
  -- When the client certificate expires, outside of the sealed destination; null without one.
  certificate_expires_at bigint,
  -- The alert about this certificate that is in the store: 'near', 'expired', or null for none.
  certificate_reported text,
  paused_at bigint,                             -- null: not paused
  pause_reason text,
  -- When the stream was disabled, and the code of its last failed attempt then; null where not known.
  disabled_since bigint,
  disabled_code text collate "C",
  primary key (tenant, id),
  unique (tenant, name)
);

-- The list of streams, and whether the one in memory is still right, without their sealed columns.
create index streams_listed on streams (tenant, id, version, name, status, paused_at);
create index streams_filtered on streams (tenant) where filtered = 1;
create index streams_certificates on streams (certificate_expires_at)
  where certificate_expires_at is not null;

-- Selections of streams that apply to no event after the cursor, while the log has events to which they
-- applied. streams.subscriptions has the others.
create table past_selections (
  tenant integer not null,
  stream text collate "C" not null,
  after_offset bigint not null,                 -- it applied to the events after this one
  to_offset bigint not null,                    -- up to this one
  types text not null,                          -- JSON
  filter text,                                  -- JSON; null without one
  primary key (tenant, stream, after_offset)
);

create index past_selections_to on past_selections (tenant, to_offset, after_offset);

-- Ranges of the log that streams passed over when they were enabled again. Removed with the last of their
-- events.
create table skipped_ranges (
  tenant integer not null,
  stream text collate "C" not null,
  from_offset bigint not null,                  -- the range begins after it
  to_offset bigint not null,                    -- last of the range
  events bigint,                                -- that the stream wanted; null: not counted
  at_least integer not null default 0,          -- 1: there may be more
  skipped_at bigint not null,
  primary key (tenant, stream, from_offset)
);

create index skipped_ranges_to on skipped_ranges (tenant, to_offset);

-- What was alerted about a tenant.
create table alert_states (
  tenant integer constraint looks_pkey primary key,
  at bigint not null,                           -- of the last check of the failures
  state text not null                           -- what the next check has to know
);

-- Nodes and what they own

-- Leases are by the clock of the server.
create table nodes (
  id text collate "C" primary key,
  incarnation integer not null,
  lease_until timestamptz not null,
  freed boolean not null default false,         -- it had ended, and others may have its streams
  last_batch integer not null default 0,        -- not used: see node_steps
  last_claim integer not null default 0,        -- not used: see node_steps
  lease_ms bigint not null default 10000,       -- how long the lease was given for
  -- By how much the clock of the node was ahead of the server's at its last heartbeat.
  skew_ms bigint not null default 0,
  secret_keys text,                             -- ids of the keys in LEAT_SECRET_KEY, with commas between them
  schema_version integer                        -- not used
) with (fillfactor = 50);

-- The numbers of a node's batches and claims. In its row of `nodes` a settlement that waited for a lock made
-- the heartbeat wait as well, until the lease had ended.
create table node_steps (
  node text not null references nodes (id) on delete cascade,
  kind text not null,                           -- 'batch' or 'claim'
  incarnation integer not null,
  last_number integer not null,                 -- of this incarnation
  primary key (node, kind)
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
  -- The total of the pauses of the stream that ended. deliveries.cycle_at does not count them: it is the time
  -- at which the cycle began less the pauses before.
  paused_ms bigint not null default 0,
  -- The results of the last attempts.
  last_delivered_at bigint,
  last_failed_at bigint,
  last_error_code text collate "C",
  settled_above text,                           -- in order: the settled events above the cursor, as JSON
  -- The cursor with which the stream was created: events up to it were not meant for it. Null where it is
  -- not known.
  first_offset bigint,
  -- Since when the store refuses results of the stream, and the code of its error; null once one is recorded.
  refused_at bigint,
  refused_code text,
  -- When the oldest attempt began that failed since the last success, at the earliest that success; null
  -- without one. An attempt that hangs is as old as it is, not as its timeout is.
  failing_since bigint,
  primary key (tenant, stream)
) with (fillfactor = 50);

create index runs_free on runs (tenant, stream) where owner is null;
create index runs_owner on runs (owner) where owner is not null;

-- Deliveries

create table deliveries (
  tenant integer not null,
  stream text collate "C" not null,
  event_id text collate "C" not null,
  "offset" bigint,                              -- null for a test event
  type text collate "C" not null,
  time bigint not null,
  kind text not null check (kind in ('first', 'redelivery', 'test', 'replay')),
  -- blocked: waits behind its key
  state text not null check (state in ('parked', 'retrying', 'failed', 'blocked')),
  attempt integer not null,
  due_at bigint constraint deliveries_due_check check ((due_at is null) = (state in ('failed', 'blocked'))),
  failed_at bigint
    constraint deliveries_check1 check ((failed_at is not null) = (state = 'failed' or kind = 'redelivery')),
  body text,                                    -- only where the log does not have the event
  trace text,                                   -- the same
  -- Day (UTC) on which the event was published, or the test event made; null where it is not known.
  event_day integer,
  -- The first and the last day of its entries in the history, widened as these are written. Attempts have the
  -- day of the clock when they were made, so where the clock was set back they may be of earlier days than
  -- the event, and the last of earlier days than the first. The defaults are for deliveries that may have
  -- any: those of a replay, and those that came from SQLite.
  attempts_from integer not null default 0,
  attempts_to integer not null default 2147483647,
  -- When the first attempt of the cycle was recorded; null where it is not known.
  cycle_at bigint,
  order_key text collate "C",                   -- the hash of the key of an ordered event
  error_code text collate "C" not null default '', -- of the last failed attempt; empty where it is not known
  -- The order of the list of all failures, and of deliveries that wait for a retry: when the failure was
  -- opened, or the cycle began.
  listed_at bigint generated always as (case
    when failed_at is not null then failed_at
    when state = 'retrying' and attempt > 1 then coalesce(cycle_at, 0)
  end) stored,
  redelivery text collate "C",                  -- the request for many redeliveries that it is part of
  -- Begins with the event, so that it also serves what searches by event.
  primary key (tenant, event_id, stream)
);

create index deliveries_due on deliveries (tenant, stream, due_at) where due_at is not null;
create index deliveries_failed on deliveries (tenant, stream, failed_at, event_id)
  where failed_at is not null;
-- Finds the delivery of an entry of the history, and those above the cursor of a stream, which may have
-- thousands of failures below it.
create index deliveries_offset on deliveries (tenant, stream, "offset");
-- However many others wait, those of a replay are found at once.
create index deliveries_replay on deliveries (tenant, stream, due_at)
  where kind = 'replay' and due_at is not null;
create index deliveries_order on deliveries (tenant, stream, order_key, state, "offset")
  where order_key is not null;
create index deliveries_listed on deliveries (tenant, listed_at, event_id, stream)
  where listed_at is not null;
create index deliveries_code on deliveries (tenant, stream, error_code, failed_at, event_id)
  where failed_at is not null;
-- Counts the deliveries of a tenant that wait for an attempt.
create index deliveries_waiting on deliveries (tenant, state) where due_at is not null;

-- How many open failures a stream has of each error code. Triggers keep it, so that it is true whatever
-- opens, changes or closes a failure. Who changes failures of a stream has its run locked, so no two
-- transactions change the same rows.
create table failure_groups (
  tenant integer not null,
  stream text collate "C" not null,
  error_code text collate "C" not null,
  count bigint not null,
  -- When an attempt of a failure failed last with this code, and the event of it; null where it is not known.
  last_attempt_at bigint,
  last_event text collate "C",
  primary key (tenant, stream, error_code)
) with (fillfactor = 50);

-- The history, insert only, a partition for each day. Of a day that goes, the attempts of open
-- deliveries move to day 0.
create sequence attempts_number as bigint;

create table attempts (
  day integer not null,                         -- of `at`, in days since the epoch
  tenant integer not null,
  stream_key bigint not null,
  event_key bigint not null,                    -- the offset, or leat_test_key of a test event
  at bigint not null,
  duration_ms double precision not null,
  outcome smallint not null,                    -- 1 delivered, 2 failed, 3 redelivered, 4 dismissed
  status integer,
  error text,
  number bigint not null default nextval('attempts_number') -- in the order in which they ended
) partition by range (day);

create index attempts_key on attempts (tenant, stream_key, event_key);

create table attempts_kept partition of attempts for values from (0) to (1);

-- The key of a test event in the history: below zero, where no offset is. As testKeyOf in
-- rows/attempts.ts.
create function leat_test_key(event_id text) returns bigint language sql immutable strict
  parallel safe return
  -1 - (('x' || left(encode(sha256(convert_to(event_id, 'UTF8')), 'hex'), 13))::bit(52)::bigint);

create table stream_stats (
  tenant integer not null,
  stream text collate "C" not null,
  hour bigint not null,                         -- its first millisecond
  delivered integer not null,
  failed integer not null,
  primary key (tenant, stream, hour)
) with (fillfactor = 50);

-- What became of deliveries, by stream and by tenant (stream ''). Nodes count minutes in memory and write
-- them every few seconds, each its own rows; upkeep adds them up to hours and days.
create table delivery_stats (
  tenant integer not null,
  stream text collate "C" not null,
  unit text collate "C" not null check (unit in ('minute', 'hour', 'day')),
  starts_at bigint not null,
  writer text collate "C" not null,             -- the process that counted a minute; '' for a sum
  published bigint not null,
  delivered bigint not null,
  failed bigint not null,
  retried bigint not null,
  latency text not null,                        -- histograms, see histogram.ts
  duration text not null,
  primary key (tenant, stream, unit, starts_at, writer)
) with (fillfactor = 70);

create index delivery_stats_age on delivery_stats (unit, starts_at);

-- How far minutes are added up to hours, and hours to days: in the unit that starts at starts_at up to this
-- stream, in all units before it completely.
create table delivery_stats_sums (
  unit text collate "C" primary key check (unit in ('hour', 'day')),
  starts_at bigint not null,
  last_tenant integer not null,
  last_stream text collate "C" not null
);

-- Ranges of the log, or chosen events of it, that are sent to a stream again.
create table replays (
  tenant integer not null,
  stream text collate "C" not null,
  id text collate "C" not null,
  from_offset bigint not null,                  -- the range begins after it
  position bigint not null,                     -- events up to here have a row, or were passed
  to_offset bigint not null,                    -- last of the range
  passed bigint not null,                       -- the stream's cursor when it was accepted
  event_types text,                             -- JSON; null for all
  matched bigint not null,
  sent bigint not null,
  failed bigint not null,
  status text not null check (status in ('running', 'done', 'cancelled', 'failed')),
  created_at bigint not null,
  finished_at bigint check ((finished_at is null) = (status = 'running')),
  offsets text,                                 -- of chosen events, as JSON; null for a range
  primary key (tenant, stream, id)
) with (fillfactor = 50);

create unique index replays_running on replays (tenant, stream) where status = 'running';
create index replays_finished on replays (finished_at) where finished_at is not null;

-- Requests that redeliver failures of many streams. They are accepted with their total, and worked on in
-- steps of some hundred failures.
create table redeliveries (
  tenant integer not null,
  id text collate "C" not null,
  selection text not null,                      -- JSON
  work text collate "C" not null check (work in ('taking', 'cancelling', 'none')),
  position text collate "C" not null,           -- the last stream that this work has done
  created_at bigint not null,
  created_by text collate "C" not null,         -- id of the client
  cancelled_at bigint,
  -- Where the work is within the stream after `position`: the last failure that a step has read.
  after_at bigint not null default 0,
  after_event text collate "C" not null default '',
  -- 1 if some streams had too many failures to count them at the acceptance.
  at_least integer not null default 0,
  primary key (tenant, id)
);

create index redeliveries_created on redeliveries (created_at);
create index redeliveries_work on redeliveries (tenant, id) where work <> 'none';

-- The progress of each stream, counted while its run is locked, so that nodes do not wait for each other.
create table redelivery_streams (
  tenant integer not null,
  id text collate "C" not null,
  stream text collate "C" not null,
  total integer not null,
  delivered integer not null default 0,
  failed integer not null default 0,
  skipped integer not null,
  -- Failures that were counted at the acceptance and that no step has found yet.
  unread integer not null default 0,
  primary key (tenant, id, stream)
) with (fillfactor = 50);

create index redelivery_streams_stream on redelivery_streams (tenant, stream);

-- Requests that dismiss open failures, worked on as those of redeliveries. dismissal_streams has the result,
-- except of some old requests, which have it in dismissed and skipped.
create table dismissals (
  tenant integer not null,
  id text collate "C" not null,
  dismissed bigint not null,
  skipped bigint not null,                      -- matching failures that stayed open
  created_at bigint not null,
  created_by text collate "C" not null,         -- id of the client
  selection text not null default '{}',
  work text collate "C" not null default 'none' check (work in ('taking', 'none')),
  position text collate "C" not null default '',
  after_at bigint not null default 0,
  after_event text collate "C" not null default '',
  at_least integer not null default 0,
  -- Set while failures are opened again: no stream gets as many open ones.
  reopen_below integer,
  primary key (tenant, id)
);

create index dismissals_created on dismissals (created_at);
create index dismissals_work on dismissals (tenant, id) where work <> 'none';

create table dismissal_streams (
  tenant integer not null,
  id text collate "C" not null,
  stream text collate "C" not null,
  total integer not null,
  dismissed integer not null default 0,
  skipped integer not null default 0,
  unread integer not null,
  reopened integer not null default 0,
  primary key (tenant, id, stream)
) with (fillfactor = 50);

create index dismissal_streams_stream on dismissal_streams (tenant, stream);

-- Events of the log of which a failure was dismissed. The history says so as well, but may be removed
-- before the event.
create table dismissed_events (
  tenant integer not null,
  "offset" bigint not null,
  stream text collate "C" not null,
  -- What the dismissal closed, to open it again: the request, and the row of the failure. Null for some old
  -- dismissals, which are not opened again.
  dismissal text collate "C",
  event_id text collate "C",
  type text collate "C",
  time bigint,
  kind text,
  attempt integer,
  failed_at bigint,
  error_code text,
  primary key (tenant, "offset", stream)
);

create index dismissed_events_dismissal on dismissed_events (tenant, dismissal, stream, "offset")
  where dismissal is not null;

-- The counts of failures and of redeliveries follow deliveries.

create function leat_failures_added() returns trigger language plpgsql as $$
begin
  insert into failure_groups as g (tenant, stream, error_code, count)
    select tenant, stream, error_code, count(*) from added where failed_at is not null
    group by tenant, stream, error_code order by tenant, stream, error_code
  on conflict (tenant, stream, error_code) do update set count = g.count + excluded.count;
  return null;
end $$;

create function leat_failures_removed() returns trigger language plpgsql as $$
begin
  if not exists (select 1 from removed where failed_at is not null) then return null; end if;
  update failure_groups g set count = g.count - r.count
  from (
    select tenant, stream, error_code, count(*) as count from removed where failed_at is not null
    group by tenant, stream, error_code) as r
  where g.tenant = r.tenant and g.stream = r.stream and g.error_code = r.error_code;
  delete from failure_groups g where g.count <= 0 and (g.tenant, g.stream) in (
    select tenant, stream from removed where failed_at is not null);
  update redelivery_streams s set delivered = s.delivered + r.count
  from (
    select tenant, redelivery, stream, count(*) as count from removed
    where redelivery is not null and state <> 'failed' group by tenant, redelivery, stream) as r
  where s.tenant = r.tenant and s.id = r.redelivery and s.stream = r.stream;
  return null;
end $$;

create function leat_failures_changed() returns trigger language plpgsql as $$
begin
  if not exists (
    select 1 from removed where failed_at is not null
    union all
    select 1 from added where failed_at is not null) then return null; end if;
  insert into failure_groups as g (tenant, stream, error_code, count)
    select tenant, stream, error_code, sum(change) from (
      select tenant, stream, error_code, 1 as change from added where failed_at is not null
      union all
      select tenant, stream, error_code, -1 from removed where failed_at is not null) as changes
    group by tenant, stream, error_code having sum(change) <> 0
    order by tenant, stream, error_code
  on conflict (tenant, stream, error_code) do update set count = g.count + excluded.count;
  delete from failure_groups g where g.count <= 0 and (g.tenant, g.stream) in (
    select tenant, stream from removed where failed_at is not null);
  if not exists (select 1 from removed where redelivery is not null and state <> 'failed') then
    return null;
  end if;
  -- One that is cancelled loses its request with the change.
  update redelivery_streams s set failed = s.failed + r.failed, skipped = s.skipped + r.skipped
  from (
    select n.tenant, o.redelivery, n.stream,
      count(*) filter (where n.redelivery is not null) as failed,
      count(*) filter (where n.redelivery is null) as skipped
    from removed o
    join added n on n.tenant = o.tenant and n.stream = o.stream and n.event_id = o.event_id
    where o.redelivery is not null and o.state <> 'failed' and n.state = 'failed'
    group by n.tenant, o.redelivery, n.stream) as r
  where s.tenant = r.tenant and s.id = r.redelivery and s.stream = r.stream;
  return null;
end $$;

create trigger failures_added after insert on deliveries
  referencing new table as added for each statement execute function leat_failures_added();
create trigger failures_removed after delete on deliveries
  referencing old table as removed for each statement execute function leat_failures_removed();
create trigger failures_changed after update on deliveries
  referencing old table as removed new table as added
  for each statement execute function leat_failures_changed();

-- Access

create table clients (
  tenant integer not null,
  id text collate "C" not null,
  name text collate "C" not null,
  global boolean not null,
  issuer text collate "C",
  secret_hash text,
  jwks text,
  version integer not null,
  created_at bigint not null,
  -- Rises when the secret of a client is replaced or one of its keys removed; a token with another
  -- version is no longer accepted.
  credentials_version bigint not null default 1,
  -- Here and below: fields that are stored and returned without effect, as a JSON object.
  carried text,
  primary key (tenant, id)
);

create index clients_created on clients (tenant, created_at, id);

-- Which assertions of private_key_jwt were used, until they expire.
create table assertions (
  tenant integer not null,
  client text collate "C" not null,
  jti text collate "C" not null,
  expires_at bigint not null,
  primary key (tenant, client, jti)
);

create index assertions_expires on assertions (tenant, expires_at);

create table apis (
  tenant integer not null,
  id text collate "C" not null,
  identifier text collate "C" not null,
  name text collate "C" not null,
  scopes text not null,                         -- [{"value": "...", "description": "..."}, ...]
  enforce_policies boolean not null,
  token_dialect text collate "C" not null check (token_dialect in ('access_token', 'access_token_authz')),
  token_lifetime_seconds integer not null,
  created_at bigint not null,
  carried text,
  primary key (tenant, id),
  unique (tenant, identifier)
);

create index apis_created on apis (tenant, created_at, id);

create table grants (
  tenant integer not null,
  id text collate "C" not null,
  client text collate "C" not null,
  api text collate "C" not null,                -- 'management' has no row in apis
  scope text not null,                          -- ["...", ...]
  carried text,
  primary key (tenant, id),
  unique (tenant, client, api)
);

create index grants_api on grants (tenant, api);

-- The users of the database connections. A username is unique per connection like an e-mail; users
-- without one do not clash, because null equals nothing.
create table users (
  tenant integer not null,
  id text collate "C" not null,
  connection text collate "C" not null,
  email text collate "C" not null,              -- lower case
  username text collate "C",
  password_hash text not null,
  profile text not null,                        -- JSON object
  created_at bigint not null,
  updated_at bigint not null,
  primary key (tenant, id),
  unique (tenant, connection, email),
  unique (tenant, connection, username)
);

-- Pages of users in the orders that may be asked for, from the index alone. Users of one value follow
-- by id, so that ties do not have to be sorted. The key has the order by id.
create index users_created on users (tenant, created_at, id);
create index users_updated on users (tenant, updated_at, id);
create index users_username on users (tenant, username nulls first, id);
create index users_email_id on users (tenant, email, id);

-- Roles group permissions; clients and users hold them.
create table roles (
  tenant integer not null,
  id text collate "C" not null,
  name text collate "C" not null,
  description text not null,
  created_at bigint not null,
  carried text,
  primary key (tenant, id),
  unique (tenant, name)
);

create index roles_created on roles (tenant, created_at, id);

create table role_permissions (
  tenant integer not null,
  role text collate "C" not null,
  api text collate "C" not null,                -- 'management' has no row in apis
  name text collate "C" not null,
  primary key (tenant, role, api, name)
);

create index role_permissions_api on role_permissions (tenant, api);

create table role_clients (
  tenant integer not null,
  role text collate "C" not null,
  client text collate "C" not null,
  primary key (tenant, role, client)
);

create index role_clients_client on role_clients (tenant, client);

create table role_users (
  tenant integer not null,
  role text collate "C" not null,
  "user" text collate "C" not null,
  primary key (tenant, role, "user")
);

create index role_users_user on role_users (tenant, "user");

-- The keys that sign access tokens.
create table signing_keys (
  -- Rises with each key: two of one instant have an order.
  number bigint primary key generated always as identity,
  tenant integer not null,
  kid text collate "C" not null,
  private_jwk bytea not null,                   -- sealed JSON
  created_at bigint not null,
  signs_from bigint not null,
  expires_at bigint,
  unique (tenant, kid)
);

-- The keys that sign webhooks, Ed25519.
create table webhook_keys (
  -- Rises with each key: two of one instant have an order.
  number bigint primary key generated always as identity,
  tenant integer not null,
  kid text collate "C" not null,
  private_jwk bytea not null,                   -- sealed JSON
  created_at bigint not null,
  signs_from bigint not null,
  expires_at bigint,
  unique (tenant, kid)
);

-- Sessions of the web console. Of their secrets, and of one-time codes, only the SHA-256 is stored.
create table console_sessions (
  tenant integer not null,
  secret_hash bytea not null,
  id text collate "C" not null,                 -- shown in lists; grants nothing
  role text collate "C" not null,
  "user" text not null,                         -- who signed in
  mapping text,                                 -- the entry of LEAT_CONSOLE_ROLES that gave the role
  created_at bigint not null,
  used_at bigint not null,                      -- a minute exact
  ends_at bigint not null,
  primary key (tenant, secret_hash)
);

create unique index console_sessions_id on console_sessions (tenant, id);
create index console_sessions_ended on console_sessions (ends_at);

-- Codes of one-time links that begin a session; a code that is used is deleted.
create table console_codes (
  tenant integer not null,
  code_hash bytea not null,
  role text collate "C" not null,
  expires_at bigint not null,
  primary key (tenant, code_hash)
);

create index console_codes_expired on console_codes (expires_at);

-- What happened to a tenant: changes, refusals, tokens. Entries of changes are written with the change.
create table audit_log (
  tenant integer not null,
  id text collate "C" not null,
  at bigint not null,
  type text collate "C" not null,
  description text not null,
  client text collate "C",
  client_name text,                             -- at that time
  ip text,
  user_agent text,
  details text not null,                        -- JSON
  count bigint not null,                        -- equal ones since then, this one included
  primary key (tenant, id)
);

-- The newest of one type, and of one type and client; and the oldest of all, which expire first.
create index audit_log_type on audit_log (tenant, type, at, id);
create index audit_log_client on audit_log (tenant, client, type, at, id);
create index audit_log_at on audit_log (at, tenant, id);

-- Ids of what the entries are about.
create table audit_targets (
  tenant integer not null,
  id text collate "C" not null,
  target text collate "C" not null,
  type text collate "C" not null,
  client text collate "C",
  at bigint not null,
  primary key (tenant, id, target)
);

create index audit_targets_target on audit_targets (tenant, target, type, at, id);
create index audit_targets_client on audit_targets (tenant, target, client, type, at, id);

-- The store itself

-- One row, sealed at the first start: a secret key that does not open it is the wrong one.
create table key_check (
  id integer constraint key_proof_pkey primary key constraint key_proof_id_check check (id = 1),
  sealed bytea not null
);

-- Who does upkeep for all nodes.
create table upkeep (
  id integer primary key check (id = 1),
  leader text collate "C" not null,
  lease_until timestamptz not null
);

-- Which store this is. After a fail-over to a replica or a restore from a backup the rows may be those
-- of an earlier time, and what nodes remember of the store is void: so commands that build on it compare
-- the store with the one that their process joined.
--
-- One row. The generation rises each time that a process finds the store to be another one than the
-- row, or the process itself, knows.
create table store (
  id integer primary key check (id = 1),
  generation bigint not null,
  identity text collate "C"                     -- see leat_identity(); null before the first process
);

insert into store (id, generation) values (1, 0);

-- What is another one after a restore or a fail-over: the cluster, the database, the table `tenants`,
-- and the timeline, which a promotion raises at once. Cluster and database are the same for as long as
-- a connection lives, and take a file and a look-up to find out: the session keeps them. Whatever a
-- pooler shares between transactions is one connection to one server all the same.
create function leat_identity() returns text language plpgsql as $$
declare
  place text := current_setting('leat.place', true);
begin
  if coalesce(place, '') = '' then
    select c.system_identifier || '/' || d.oid into place
      from pg_control_system() c, pg_database d where d.datname = current_database();
    perform set_config('leat.place', place, false);
  end if;
  return place || '/' || 'tenants'::regclass::oid || '/'
    || left(pg_walfile_name(pg_current_wal_lsn()), 8);
end $$;

-- The position up to which the log of the server is on its disk, in bytes.
create function leat_flushed() returns bigint language sql as $$
  select (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint
$$;

-- Fails with LT409 unless the store is the one of this generation and identity, and its log reaches as
-- far as it did; answers how far it reaches now. Without a generation nothing is compared. On a server
-- that follows another one it fails as any change does there.
create function leat_compare(the_generation bigint, the_identity text, the_flushed bigint)
returns bigint language plpgsql as $$
declare
  flushed bigint;
begin
  if the_generation is null then return null; end if;
  if pg_is_in_recovery() then
    raise exception 'cannot work on a server that follows another one' using errcode = '25006';
  end if;
  flushed := (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint;
  if flushed < the_flushed or the_identity is distinct from leat_identity()
    or the_generation is distinct from (select s.generation from store s where s.id = 1) then
    raise exception 'the store is another one than the process joined' using errcode = 'LT409';
  end if;
  return flushed;
end $$;

-- What every publish, page of the log and settlement does. A session plans the statements of a function once,
-- also behind a pooler, where a client cannot have prepared statements: planned at each call they took
-- most of the processor time of a settlement.

-- Appends events at the next offsets. One statement, and so one round trip, from the lock on the
-- tenant to the commit: no process holds the lock while it is slow, frozen or cut off. Each statement
-- in here sees what was committed before it began, so the look-up, which follows the lock, sees
-- every event that has an offset. The lock makes offset order equal commit order: a reader at the
-- head can never pass an event that commits later.
--
-- Ids must differ. `traces` is an array as long as the others, or an empty one where no event has a trace;
-- `contents` as well, of 32 hexadecimal digits each. Answers the head before, after which the new events
-- follow in the order of the arrays; the instant of this append; and the chosen ids that were there
-- already, with their offsets. With a chosen id that the log has with another content it appends nothing,
-- and `in_use` is that id. All of it is null when there is no such tenant.
create function leat_append(
  the_tenant integer, ids text[], chosen boolean[], types text[], times bigint[],
  bodies text[], traces text[], contents text[], out head bigint, out published_at bigint,
  out known text[], out known_at bigint[], out in_use text
) language plpgsql as $$
declare
  pruned bigint;
  former_at bigint;
  oldest_day_at bigint;
  key bytea;
begin
  select t.head, greatest(leat_now(), t.last_published_at), t.pruned_to, t.last_published_at, t.content_key
    into leat_append.head, leat_append.published_at, pruned, former_at, key
    from tenants t where t.id = the_tenant for no key update;
  if not found then return; end if;

  if true = any(chosen) then
    -- A chosen id may be that of any retained event of the tenant: this opens every day from the oldest on.
    select s.from_at into oldest_day_at from leat_stretch(the_tenant, pruned, pruned + 1, 1) as s;
    select array_agg(k.id), array_agg(k.at),
        (array_agg(k.id order by array_position(ids, k.id)) filter (
          where k.content <> substr(sha256(key || decode(u.content, 'hex')), 1, 8)))[1]
      into known, known_at, in_use from (
        select distinct on (id) id, at, content from (
          select e.id, e."offset" as at, 1 as source, e.content from events e
            where e.tenant = the_tenant and e."offset" > pruned
              and e.published_at >= oldest_day_at
              and e.id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
          union all
          select d.event_id, d."offset", 2, null from deliveries d
            where d.tenant = the_tenant and d."offset" is not null
              and d.event_id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
        ) as found order by id, source
      ) as k join unnest(ids, contents) as u(id, content) using (id);
    if in_use is not null then return; end if;
  end if;

  insert into events (tenant, "offset", id, type, time, published_at, body, trace, content)
    select the_tenant, leat_append.head + row_number() over (order by u.n), u.id, u.type, u.time,
      leat_append.published_at, u.body, u.trace, substr(sha256(key || decode(u.content, 'hex')), 1, 8)
    from unnest(ids, types, times, bodies, traces, contents)
      with ordinality as u(id, type, time, body, trace, content, n)
    where known is null or u.id <> all(known)
    order by u.n;
  if not found then return; end if;

  if leat_append.published_at / 86400000 > former_at / 86400000 then
    insert into log_days (tenant, first_offset, day, former_at)
      values (the_tenant, leat_append.head + 1, leat_append.published_at / 86400000,
        nullif(former_at, 0));
  end if;

  update tenants t set
    head = t.head + cardinality(ids) - coalesce(cardinality(known), 0),
    last_published_at = leat_append.published_at
  where t.id = the_tenant;
end $$;

-- Reads a page of the log by one round trip and on one snapshot, and compares the store. Most of what a
-- page of a few events costs is planning, and nodes that wait for each other's events read such pages
-- all the time: a session plans once where the page ends.
--
-- Returns the events, until `take` of them or the first that exceeds the limit on bytes, but always one
-- if there is any; and last, with an id of null, the head of the log, the position of the server's log,
-- and the offset up to which the page has every event of the types.
create function leat_page(
  the_generation bigint, the_identity text, the_flushed bigint, the_tenant integer,
  after_offset bigint, last_offset bigint, offsets_max bigint, days_max integer, the_types text[],
  take bigint, bytes_max bigint
) returns table (
  "offset" bigint, id text, type text, "time" bigint, published_at bigint, body text, trace text,
  head bigint, flushed bigint, scanned_to bigint
) language plpgsql stable as $$
#variable_conflict use_column
declare
  stretch record;
  event record;
  found_last bigint;
  events_read bigint := 0;
  bytes bigint := 0;
begin
  select coalesce(t.head, 0) as head, greatest(t.pruned_to, after_offset) as after, s.up_to, s.from_at,
      s.to_at into stretch
    from (select the_tenant as id) as wanted
    left join tenants t on t.id = wanted.id
    cross join lateral leat_stretch(the_tenant, greatest(t.pruned_to, after_offset),
      least(coalesce(t.head, 0), last_offset, greatest(t.pruned_to, after_offset) + offsets_max),
      days_max) as s;
  scanned_to := greatest(after_offset, stretch.up_to);
  if stretch.up_to > stretch.after then
    -- Planned at each call, with the days as constants: a plan that is kept locks every partition.
    for event in execute
      'select e."offset", e.id, e.type, e.time, e.published_at, e.body, e.trace from events e
        where e.tenant = $1 and e."offset" > $2 and e."offset" <= $3
          and e.published_at >= $4 and e.published_at < $5 and ($6 is null or e.type = any($6))
        order by e."offset" limit $7'
      using the_tenant, stretch.after, stretch.up_to, stretch.from_at, stretch.to_at, the_types, take
    loop
      bytes := bytes + octet_length(event.body);
      if bytes > bytes_max and events_read > 0 then
        scanned_to := found_last;
        exit;
      end if;
      events_read := events_read + 1;
      found_last := event."offset";
      "offset" := event."offset";
      id := event.id;
      type := event.type;
      "time" := event.time;
      published_at := event.published_at;
      body := event.body;
      trace := event.trace;
      return next;
    end loop;
    if events_read = take then scanned_to := found_last; end if;
  end if;
  "offset" := null; id := null; type := null; "time" := null; published_at := null; body := null;
  trace := null;
  head := stretch.head;
  -- Last: it sees what was committed while the function waited for a lock, as for one of a restore.
  flushed := leat_compare(the_generation, the_identity, the_flushed);
  return next;
end $$;

-- Notes that a node does a step, until the commit alone; false when it has done it before, or when the
-- incarnation is not the present one. Does not lock the row of the node: the runs that a step writes are
-- locked by it and have the epoch of their owner.
create function leat_begin_step(
  the_node text, the_incarnation integer, the_kind text, the_number integer
) returns boolean language plpgsql as $$
begin
  insert into node_steps as s (node, kind, incarnation, last_number)
    select id, the_kind, incarnation, the_number from nodes
    where id = the_node and incarnation = the_incarnation
    on conflict (node, kind) do update
      set incarnation = excluded.incarnation, last_number = excluded.last_number
      where (s.incarnation, s.last_number) < (excluded.incarnation, excluded.last_number);
  return found;
end $$;

-- Compares the store, begins a batch of a node and locks the runs of these streams, always in the same
-- order. The first row has the position of the server's log, whether the batch is a new one of this
-- incarnation, and the time after the locks; the others are the runs.
create function leat_begin_settlement(
  the_generation bigint, the_identity text, the_flushed bigint, the_node text,
  the_incarnation integer, the_batch integer, the_tenants integer[], the_streams text[]
) returns table (
  flushed bigint, begun boolean, now bigint, key bigint, tenant integer, stream text, cursor bigint,
  run integer, consecutive_failures integer, total_failures integer, owner text, epoch integer,
  paused_ms bigint, status text, version integer, subscriptions text, paused_at bigint
) language plpgsql as $$
#variable_conflict use_column
begin
  flushed := leat_compare(the_generation, the_identity, the_flushed);
  begun := leat_begin_step(the_node, the_incarnation, 'batch', the_batch);
  -- Two statements: one that waits for a lock may return data from before the lock.
  perform 1 from runs
    where (tenant, stream) in (select * from unnest(the_tenants, the_streams))
    order by tenant, stream for no key update;
  now := leat_now();
  return next;
  return query
    select null::bigint, null::boolean, null::bigint, r.key, r.tenant, r.stream, r.cursor, r.run,
      r.consecutive_failures, r.total_failures, r.owner, r.epoch, r.paused_ms, s.status, s.version,
      s.subscriptions, s.paused_at
    from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
    where (r.tenant, r.stream) in (select * from unnest(the_tenants, the_streams));
end $$;

-- Writes the changes of locked runs. A run whose failing ends may begin to fail again in the same batch.
create function leat_write_changed_runs(
  the_tenants integer[], the_streams text[], the_cursors bigint[], the_runs integer[],
  the_consecutive integer[], the_totals integer[], the_paused_ms bigint[],
  the_delivered_at bigint[], the_failed_at bigint[], the_error_codes text[],
  the_failing_ends boolean[], the_failing_from bigint[]
) returns void language plpgsql as $$
begin
  update runs set cursor = u.cursor, run = u.run, consecutive_failures = u.consecutive,
    total_failures = u.total, paused_ms = u.paused_ms,
    last_delivered_at = coalesce(u.delivered_at, last_delivered_at),
    last_failed_at = coalesce(u.failed_at, last_failed_at),
    last_error_code = coalesce(u.error_code, last_error_code),
    failing_since = least(case when u.failing_ends then null else failing_since end,
      case when u.failing_from is not null
        then greatest(u.failing_from, u.delivered_at, last_delivered_at) end)
  from unnest(the_tenants, the_streams, the_cursors, the_runs, the_consecutive, the_totals,
      the_paused_ms, the_delivered_at, the_failed_at, the_error_codes, the_failing_ends,
      the_failing_from)
    as u(tenant, stream, cursor, run, consecutive, total, paused_ms, delivered_at, failed_at,
      error_code, failing_ends, failing_from)
  where runs.tenant = u.tenant and runs.stream = u.stream;
end $$;

-- Adds deliveries that ended to an hour. The first addition of an hour removes the hours of the stream
-- before another one.
create function leat_add_stats(
  the_hour bigint, kept_from bigint, the_tenants integer[], the_streams text[],
  the_delivered integer[], the_failed integer[]
) returns void language plpgsql as $$
declare
  added record;
begin
  for added in
    insert into stream_stats as s (tenant, stream, hour, delivered, failed)
    select u.tenant, u.stream, the_hour, u.delivered, u.failed
    from unnest(the_tenants, the_streams, the_delivered, the_failed)
      as u(tenant, stream, delivered, failed)
    on conflict (tenant, stream, hour) do update set
      delivered = s.delivered + excluded.delivered, failed = s.failed + excluded.failed
    returning s.tenant, s.stream, xmax = 0 as is_first
  loop
    continue when not added.is_first;
    delete from stream_stats s
      where s.tenant = added.tenant and s.stream = added.stream and s.hour < kept_from;
  end loop;
end $$;
