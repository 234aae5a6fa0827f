-- On which day each part of a log was published, so that a statement names the days it reads: one
-- without a bound on published_at opens every partition, 0.15 ms for each day that is retained.

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

-- Adds the rows of all events that are stored, from the beginning of each partition, the newest first:
-- the end of one is before the beginning of a row that is there already.
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

select leat_fill_log_days();

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

-- As the third edition, which it takes the place of, but for the first event of a day. A chosen id may
-- be that of any retained event of the tenant, so its look-up opens every day from the oldest on.
create or replace function leat_append(
  the_tenant integer, ids text[], chosen boolean[], types text[], times bigint[],
  bodies text[], traces text[], out head bigint, out published_at bigint, out known text[],
  out known_at bigint[]
) language plpgsql as $$
declare
  pruned bigint;
  former_at bigint;
  oldest_day_at bigint;
begin
  select t.head, greatest(leat_now(), t.last_published_at), t.pruned_to, t.last_published_at
    into leat_append.head, leat_append.published_at, pruned, former_at
    from tenants t where t.id = the_tenant for no key update;
  if not found then return; end if;

  if true = any(chosen) then
    select s.from_at into oldest_day_at from leat_stretch(the_tenant, pruned, pruned + 1, 1) as s;
    select array_agg(k.id), array_agg(k.at) into known, known_at from (
      select distinct on (id) id, at from (
        select e.id, e."offset" as at, 1 as source from events e
          where e.tenant = the_tenant and e."offset" > pruned
            and e.published_at >= oldest_day_at
            and e.id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
        union all
        select d.event_id, d."offset", 2 from deliveries d
          where d.tenant = the_tenant and d."offset" is not null
            and d.event_id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
      ) as found order by id, source
    ) as k;
  end if;

  insert into events (tenant, "offset", id, type, time, published_at, body, trace)
    select the_tenant, leat_append.head + row_number() over (order by u.n), u.id, u.type, u.time,
      leat_append.published_at, u.body, u.trace
    from unnest(ids, types, times, bodies, traces)
      with ordinality as u(id, type, time, body, trace, n)
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
