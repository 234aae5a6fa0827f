-- oldest that may run: 0014

-- Failures by cause, over all streams of a tenant.

-- The error code of the last failed attempt; empty where it is not known. Programs without this migration
-- write rows without it.
alter table deliveries add column error_code text not null default '';

update deliveries set error_code = coalesce((
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
  end
  from (
    select number, status, error from (
      select rowid as number, status, error, stream_key, event_key, outcome from attempts
      union all
      select number, status, error, stream_key, event_key, outcome from attempts_kept)
    where outcome = 2 and stream_key = (
        select r.key from runs r where r.tenant = deliveries.tenant and r.stream = deliveries.stream)
      and event_key = coalesce(deliveries.offset, leat_test_key(deliveries.event_id))
    order by number desc limit 1) as a), '')
where state = 'failed' or attempt > 1 or failed_at is not null;

-- The order of the list of all failures, and of deliveries that wait for a retry: when the failure was
-- opened, or the cycle began.
alter table deliveries add column listed_at integer generated always as (case
  when failed_at is not null then failed_at
  when state = 'retrying' and attempt > 1 then coalesce(cycle_at, 0)
end) virtual;

create index deliveries_listed on deliveries (tenant, listed_at, event_id, stream)
  where listed_at is not null;
create index deliveries_code on deliveries (tenant, stream, error_code, failed_at, event_id)
  where failed_at is not null;

-- How many open failures a stream has of each error code. Triggers keep it, so that it is true whatever
-- opens, changes or closes a failure, programs of before included.
create table failure_groups (
  tenant integer not null,
  stream text not null,
  error_code text not null,
  count integer not null,
  primary key (tenant, stream, error_code)
) strict, without rowid;

insert into failure_groups (tenant, stream, error_code, count)
select tenant, stream, error_code, count(*) from deliveries where failed_at is not null
group by tenant, stream, error_code;

create trigger failure_added after insert on deliveries when new.failed_at is not null begin
  insert into failure_groups (tenant, stream, error_code, count)
  values (new.tenant, new.stream, new.error_code, 1)
  on conflict do update set count = count + 1;
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
  values (new.tenant, new.stream, new.error_code, 1)
  on conflict do update set count = count + 1;
end;

create trigger failure_closed after update of failed_at, error_code on deliveries
when old.failed_at is not null and (new.failed_at is null or old.error_code <> new.error_code) begin
  update failure_groups set count = count - 1
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code;
  delete from failure_groups
  where tenant = old.tenant and stream = old.stream and error_code = old.error_code and count = 0;
end;
