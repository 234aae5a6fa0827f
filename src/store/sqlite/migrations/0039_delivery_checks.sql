-- oldest that may run: 0038

-- The same table with cheaper checks: for `in` with more than two values in a check SQLite fills a table in
-- memory at each insert, which took a fifth of the settlement of a failure. A check of a column cannot be
-- changed, so the table is written again.
create table deliveries_new (
  tenant integer not null,
  stream text not null,
  event_id text not null,
  offset integer,                               -- null for a test event
  type text not null,
  time integer not null,
  kind text not null
    check (kind = 'first' or kind = 'redelivery' or kind = 'test' or kind = 'replay'),
  -- blocked: waits behind its key
  state text not null
    check (state = 'parked' or state = 'retrying' or state = 'failed' or state = 'blocked'),
  attempt integer not null,
  due_at integer check ((due_at is null) = (state in ('failed', 'blocked'))),
  failed_at integer check ((failed_at is not null) = (state = 'failed' or kind = 'redelivery')),
  cycle_at integer,
  order_key text,                               -- the hash of the key of an ordered event
  error_code text not null default '',          -- of the last failed attempt; empty where it is not known
  redelivery text,                              -- the request for many redeliveries that it is part of
  body text,                                    -- only while the log does not have the event
  trace text,                                   -- the same
  -- The order of the list of all failures, and of deliveries that wait for a retry: when the failure was
  -- opened, or the cycle began.
  listed_at integer generated always as (case
    when failed_at is not null then failed_at
    when state = 'retrying' and attempt > 1 then coalesce(cycle_at, 0)
  end) virtual,
  primary key (tenant, event_id, stream)
) strict, without rowid;

insert into deliveries_new (tenant, stream, event_id, offset, type, time, kind, state, attempt,
  due_at, failed_at, cycle_at, order_key, error_code, redelivery, body, trace)
select tenant, stream, event_id, offset, type, time, kind, state, attempt,
  due_at, failed_at, cycle_at, order_key, error_code, redelivery, body, trace
from deliveries order by tenant, event_id, stream;

-- With its indexes and triggers.
drop table deliveries;
alter table deliveries_new rename to deliveries;

create index deliveries_due on deliveries (tenant, stream, due_at) where due_at is not null;
create index deliveries_failed on deliveries (tenant, stream, failed_at, event_id)
  where failed_at is not null;
create index deliveries_offset on deliveries (tenant, stream, offset);
-- However many others wait, those of a replay are found at once.
create index deliveries_replay on deliveries (tenant, stream, due_at)
  where kind = 'replay' and due_at is not null;
create index deliveries_order on deliveries (tenant, stream, order_key, state, offset)
  where order_key is not null;
create index deliveries_listed on deliveries (tenant, listed_at, event_id, stream)
  where listed_at is not null;
create index deliveries_code on deliveries (tenant, stream, error_code, failed_at, event_id)
  where failed_at is not null;
create index deliveries_waiting on deliveries (tenant, state) where due_at is not null;

-- How many open failures a stream has of each error code. Without `do update`: after that, SQLite copies
-- each page that a statement on deliveries changes, so that it could undo a part of the statement.
create trigger failure_added after insert on deliveries when new.failed_at is not null begin
  insert into failure_groups (tenant, stream, error_code, count)
  values (new.tenant, new.stream, new.error_code, 0)
  on conflict do nothing;
  update failure_groups set count = count + 1
  where tenant = new.tenant and stream = new.stream and error_code = new.error_code;
end;

create trigger failure_removed after delete on deliveries when old.failed_at is not null begin
  update failure_groups set count = count - 1
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code;
  delete from failure_groups
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code and count = 0;
end;

create trigger failure_opened after update of failed_at, error_code on deliveries
when new.failed_at is not null and (old.failed_at is null or old.error_code <> new.error_code) begin
  insert into failure_groups (tenant, stream, error_code, count)
  values (new.tenant, new.stream, new.error_code, 0)
  on conflict do nothing;
  update failure_groups set count = count + 1
  where tenant = new.tenant and stream = new.stream and error_code = new.error_code;
end;

create trigger failure_closed after update of failed_at, error_code on deliveries
when old.failed_at is not null and (new.failed_at is null or old.error_code <> new.error_code) begin
  update failure_groups set count = count - 1
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code;
  delete from failure_groups
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code and count = 0;
end;

create trigger redelivery_delivered after delete on deliveries
when old.redelivery is not null and old.state <> 'failed' begin
  update redelivery_streams set delivered = delivered + 1
  where tenant = old.tenant and id = old.redelivery and stream = old.stream;
end;

create trigger redelivery_failed after update of state on deliveries
when old.redelivery is not null and old.state <> 'failed' and new.state = 'failed' begin
  update redelivery_streams set failed = failed + (new.redelivery is not null),
    skipped = skipped + (new.redelivery is null)
  where tenant = old.tenant and id = old.redelivery and stream = old.stream;
end;
