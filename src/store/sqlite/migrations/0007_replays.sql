-- Ranges of the log that are sent to a stream again.

create table replays (
  tenant integer not null,
  stream text not null,
  id text not null,
  from_offset integer not null,                 -- the range begins after it
  position integer not null,                    -- events up to here have a row, or were passed
  to_offset integer not null,                   -- last of the range
  passed integer not null,                      -- the stream's cursor when it was accepted
  event_types text,                             -- JSON; null for all
  matched integer not null,
  sent integer not null,
  failed integer not null,
  status text not null check (status in ('running', 'done', 'cancelled', 'failed')),
  created_at integer not null,
  finished_at integer check ((finished_at is null) = (status = 'running')),
  primary key (tenant, stream, id)
) strict, without rowid;

create unique index replays_running on replays (tenant, stream) where status = 'running';
create index replays_finished on replays (tenant, finished_at) where finished_at is not null;

-- The kind 'replay' comes to a check, which SQLite does not alter: the table is made anew.
create table deliveries_new (
  tenant integer not null,
  stream text not null,
  event_id text not null,
  offset integer,                               -- null for a test event
  type text not null,
  time integer not null,
  kind text not null check (kind in ('first', 'redelivery', 'test', 'replay')),
  state text not null check (state in ('parked', 'retrying', 'failed')),
  attempt integer not null,
  due_at integer check ((due_at is null) = (state = 'failed')),
  failed_at integer check ((failed_at is not null) = (state = 'failed' or kind = 'redelivery')),
  body text,                                    -- only while the log does not have the event
  trace text,                                   -- the same
  primary key (tenant, stream, event_id)
) strict, without rowid;

insert into deliveries_new (tenant, stream, event_id, offset, type, time, kind, state, attempt,
  due_at, failed_at, body, trace)
select tenant, stream, event_id, offset, type, time, kind, state, attempt, due_at, failed_at, body,
  trace
from deliveries;

drop table deliveries;
alter table deliveries_new rename to deliveries;

create index deliveries_due on deliveries (tenant, stream, due_at) where due_at is not null;
create index deliveries_failed on deliveries (tenant, stream, failed_at, event_id)
  where failed_at is not null;
create index deliveries_event on deliveries (tenant, event_id);
-- However many others wait, those of a replay are found at once.
create index deliveries_replay on deliveries (tenant, stream, due_at)
  where kind = 'replay' and due_at is not null;
