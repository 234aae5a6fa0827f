-- oldest that may run: 0014

-- Order by key. The table is written again, as a check of a column cannot be changed.
create table deliveries_new (
  tenant integer not null,
  stream text not null,
  event_id text not null,
  offset integer,                               -- null for a test event
  type text not null,
  time integer not null,
  kind text not null check (kind in ('first', 'redelivery', 'test', 'replay')),
  -- blocked: waits behind its key
  state text not null check (state in ('parked', 'retrying', 'failed', 'blocked')),
  attempt integer not null,
  due_at integer check ((due_at is null) = (state in ('failed', 'blocked'))),
  failed_at integer check ((failed_at is not null) = (state = 'failed' or kind = 'redelivery')),
  cycle_at integer,
  order_key text,                               -- the hash of the key of an ordered event
  body text,                                    -- only while the log does not have the event
  trace text,                                   -- the same
  primary key (tenant, stream, event_id)
) strict, without rowid;

insert into deliveries_new (tenant, stream, event_id, offset, type, time, kind, state, attempt,
  due_at, failed_at, cycle_at, body, trace)
select tenant, stream, event_id, offset, type, time, kind, state, attempt, due_at, failed_at, cycle_at,
  body, trace
from deliveries;

drop table deliveries;
alter table deliveries_new rename to deliveries;

create index deliveries_due on deliveries (tenant, stream, due_at) where due_at is not null;
create index deliveries_failed on deliveries (tenant, stream, failed_at, event_id)
  where failed_at is not null;
-- Idempotency of pruned events, and pruning itself.
create index deliveries_event on deliveries (tenant, event_id);
create index deliveries_offset on deliveries (tenant, stream, offset);
-- However many others wait, those of a replay are found at once.
create index deliveries_replay on deliveries (tenant, stream, due_at)
  where kind = 'replay' and due_at is not null;
create index deliveries_order on deliveries (tenant, stream, order_key, state, offset)
  where order_key is not null;

-- Of streams that send in order: the settled events above the cursor, as JSON.
alter table runs add column settled_above text;
