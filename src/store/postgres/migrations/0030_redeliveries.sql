-- oldest that may run: 0014

-- Requests that redeliver failures of many streams, and their progress.
create table redeliveries (
  tenant integer not null,
  id text collate "C" not null,
  selection text not null,                      -- JSON
  work text collate "C" not null check (work in ('taking', 'cancelling', 'none')),
  position text collate "C" not null,           -- the last stream that this work has done
  created_at bigint not null,
  created_by text collate "C" not null,         -- id of the client
  cancelled_at bigint,
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
  primary key (tenant, id, stream)
) with (fillfactor = 50);

-- The request that started the cycle of a redelivery. Triggers count the ends of these cycles, so that
-- programs of before count as well.
alter table deliveries add column redelivery text collate "C";

create or replace function leat_failures_removed() returns trigger language plpgsql as $$
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

create or replace function leat_failures_changed() returns trigger language plpgsql as $$
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
