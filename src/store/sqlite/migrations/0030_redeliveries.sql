-- oldest that may run: 0014

-- Requests that redeliver failures of many streams, and their progress.
create table redeliveries (
  tenant integer not null,
  id text not null,
  selection text not null,                      -- JSON
  work text not null check (work in ('taking', 'cancelling', 'none')),
  position text not null,                       -- the last stream that this work has done
  created_at integer not null,
  created_by text not null,                     -- id of the client
  cancelled_at integer,
  primary key (tenant, id)
) strict, without rowid;

create index redeliveries_created on redeliveries (created_at);
create index redeliveries_work on redeliveries (tenant, id) where work <> 'none';

-- The progress of each stream, counted while its run is locked, so that nodes do not wait for each other.
create table redelivery_streams (
  tenant integer not null,
  id text not null,
  stream text not null,
  total integer not null,
  delivered integer not null default 0,
  failed integer not null default 0,
  skipped integer not null,
  primary key (tenant, id, stream)
) strict, without rowid;

-- The request that started the cycle of a redelivery. Triggers count the ends of these cycles, so that
-- programs of before count as well.
alter table deliveries add column redelivery text;

create trigger redelivery_delivered after delete on deliveries
when old.redelivery is not null and old.state <> 'failed' begin
  update redelivery_streams set delivered = delivered + 1
  where tenant = old.tenant and id = old.redelivery and stream = old.stream;
end;

-- One that is cancelled loses its request with the change.
create trigger redelivery_failed after update of state on deliveries
when old.redelivery is not null and old.state <> 'failed' and new.state = 'failed' begin
  update redelivery_streams set failed = failed + (new.redelivery is not null),
    skipped = skipped + (new.redelivery is null)
  where tenant = old.tenant and id = old.redelivery and stream = old.stream;
end;
