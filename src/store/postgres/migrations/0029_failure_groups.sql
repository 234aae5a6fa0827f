-- oldest that may run: 0014

-- Failures by cause, over all streams of a tenant.

-- The error code of the last failed attempt; empty where it is not known. Programs without this migration
-- write rows without it.
alter table deliveries add column error_code text collate "C" not null default '';

update deliveries d set error_code = found.code
from (
  select f.tenant, f.stream, f.event_id, a.code
  from deliveries f
  join runs r on r.tenant = f.tenant and r.stream = f.stream
  cross join lateral (
    select case
      when a.status is not null then 'http_' || a.status
      when a.error = 'The event stream is disabled' then 'stream_disabled'
      when a.error like 'timeout%' then 'timeout'
      when a.error like 'dns%' then 'dns'
      when a.error like 'refused%' then 'refused'
      when a.error like 'reset%' or a.error like 'cancelled%' then 'reset'
      when a.error like 'tls%' then 'tls'
      when a.error like 'blocked address%' then 'blocked_address'
      when a.error like 'authorization%' then 'authorization'
      else 'protocol'
    end as code
    from attempts a
    where a.tenant = f.tenant and a.stream_key = r.key and a.event_key = f."offset" and a.outcome = 2
      and (a.day = 0 or a.day between f.attempts_from and f.attempts_to)
    order by a.number desc limit 1) as a
  where f."offset" is not null and (f.failed_at is not null or f.attempt > 1)
) as found
where d.tenant = found.tenant and d.stream = found.stream and d.event_id = found.event_id;

-- The order of the list of all failures, and of deliveries that wait for a retry: when the failure was
-- opened, or the cycle began.
alter table deliveries add column listed_at bigint generated always as (case
  when failed_at is not null then failed_at
  when state = 'retrying' and attempt > 1 then coalesce(cycle_at, 0)
end) stored;

create index deliveries_listed on deliveries (tenant, listed_at, event_id, stream)
  where listed_at is not null;
create index deliveries_code on deliveries (tenant, stream, error_code, failed_at, event_id)
  where failed_at is not null;

-- How many open failures a stream has of each error code. Triggers keep it, so that it is true whatever
-- opens, changes or closes a failure, programs of before included. Who changes failures of a stream has
-- its run locked, so no two transactions change the same rows.
create table failure_groups (
  tenant integer not null,
  stream text collate "C" not null,
  error_code text collate "C" not null,
  count bigint not null,
  primary key (tenant, stream, error_code)
) with (fillfactor = 50);

insert into failure_groups (tenant, stream, error_code, count)
select tenant, stream, error_code, count(*) from deliveries where failed_at is not null
group by tenant, stream, error_code;

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
  return null;
end $$;

create trigger failures_added after insert on deliveries
  referencing new table as added for each statement execute function leat_failures_added();
create trigger failures_removed after delete on deliveries
  referencing old table as removed for each statement execute function leat_failures_removed();
create trigger failures_changed after update on deliveries
  referencing old table as removed new table as added
  for each statement execute function leat_failures_changed();
