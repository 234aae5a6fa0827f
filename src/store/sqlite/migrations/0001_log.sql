-- The event log, the streams that read it, and what is left of their deliveries.
-- Times are integer milliseconds since the epoch. Every table but attempts begins its key with the tenant.

create table tenants (
  id integer primary key autoincrement,
  name text not null unique,
  domain text not null unique,
  head integer not null default 0,              -- last offset given out
  last_published_at integer not null default 0, -- published_at of that event
  created_at integer not null
) strict;

-- A rowid table: bodies of one to two kilobytes, the usual size, stay on its leaf pages, while a
-- table without rowid would move them to overflow pages (11.7 against 23.5 µs per insert).
-- There is no index on type: readers bound their scan by offsets instead, see log.ts.
create table events (
  tenant integer not null,
  offset integer not null,
  id text not null,
  type text not null,
  time integer not null,
  published_at integer not null,                -- never falls along the log
  body text not null,
  primary key (tenant, offset),
  unique (tenant, id)
) strict;

create table streams (
  tenant integer not null,
  id text not null,
  name text not null,
  status text not null check (status in ('enabled', 'disabled')),
  subscriptions text not null,                  -- [{"after": offset, "types": [...]}, ...]
  destination blob not null,                    -- sealed JSON
  signing_secrets blob not null,                -- sealed JSON
  version integer not null,
  created_at integer not null,
  updated_at integer not null,
  primary key (tenant, id),
  unique (tenant, name)
) strict, without rowid;

-- What moves while a stream runs. `key` stands for the stream in attempts, where the pair of tenant
-- and id would double the size of a row; it is never used again after the stream is deleted.
-- Differs from an engine that nodes share: neither lease nor seen version, because the file belongs
-- to one process and hints reach it within the command.
create table runs (
  key integer primary key autoincrement,
  tenant integer not null,
  stream text not null,
  cursor integer not null,
  run integer not null,                         -- how often the stream was enabled
  consecutive_failures integer not null,
  total_failures integer not null,
  owner text,
  epoch integer not null,                       -- how often the stream was claimed
  unique (tenant, stream)
) strict;

create index runs_free on runs (tenant, stream) where owner is null;

create table nodes (
  id text primary key,
  incarnation integer not null,
  last_batch integer not null                   -- of this incarnation
) strict, without rowid;

create table deliveries (
  tenant integer not null,
  stream text not null,
  event_id text not null,
  offset integer,                               -- null for a test event
  type text not null,
  time integer not null,
  kind text not null check (kind in ('first', 'redelivery', 'test')),
  state text not null check (state in ('parked', 'retrying', 'failed')),
  attempt integer not null,
  due_at integer check ((due_at is null) = (state = 'failed')),
  failed_at integer check ((failed_at is not null) = (state = 'failed' or kind = 'redelivery')),
  body text,                                    -- only while the log does not have the event
  primary key (tenant, stream, event_id)
) strict, without rowid;

create index deliveries_due on deliveries (tenant, stream, due_at) where due_at is not null;
create index deliveries_failed on deliveries (tenant, stream, failed_at, event_id)
  where failed_at is not null;
-- Idempotency of pruned events, and pruning itself.
create index deliveries_event on deliveries (tenant, event_id);

-- The history, insert only: 2.6 µs and 50 bytes a row; with tenant and stream id in the key it was
-- 3.6 µs and 105 bytes. Rows are in the order in which attempts ended.
create table attempts (
  stream_key integer not null,
  offset integer,                               -- null for a test event
  event_id text,                                -- of a test event only
  at integer not null,
  duration_ms real not null,
  outcome integer not null,                     -- 1 delivered, 2 failed, 3 redelivered
  status integer,
  error text
) strict;

create index attempts_offset on attempts (stream_key, offset) where offset is not null;
create index attempts_test on attempts (stream_key, event_id) where event_id is not null;

create table stream_stats (
  tenant integer not null,
  stream text not null,
  hour integer not null,                        -- its first millisecond
  delivered integer not null,
  failed integer not null,
  primary key (tenant, stream, hour)
) strict, without rowid;
