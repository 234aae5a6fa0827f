-- The time of the server, in milliseconds since the epoch: every instant that deliveries, retention
-- and leases depend on is read from here, so nodes whose clocks differ change nothing.
create function leat_now() returns bigint language sql volatile parallel safe
  return floor(extract(epoch from clock_timestamp()) * 1000)::bigint;

-- How long a lease was given for, and by how much the clock of the node was ahead of the server's at
-- its last heartbeat.
alter table nodes add column lease_ms bigint not null default 10000;
alter table nodes add column skew_ms bigint not null default 0;

-- As the second edition, which it takes the place of, but for the time, which is the server's.
drop function leat_append(integer, bigint, text[], boolean[], text[], bigint[], text[], text[]);

create function leat_append(
  the_tenant integer, ids text[], chosen boolean[], types text[], times bigint[],
  bodies text[], traces text[], out head bigint, out published_at bigint, out known text[],
  out known_at bigint[]
) language plpgsql as $$
declare
  pruned bigint;
begin
  select t.head, greatest(leat_now(), t.last_published_at), t.pruned_to
    into leat_append.head, leat_append.published_at, pruned
    from tenants t where t.id = the_tenant for no key update;
  if not found then return; end if;

  if true = any(chosen) then
    select array_agg(k.id), array_agg(k.at) into known, known_at from (
      select distinct on (id) id, at from (
        select e.id, e."offset" as at, 1 as source from events e
          where e.tenant = the_tenant and e."offset" > pruned
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

  update tenants t set
    head = t.head + cardinality(ids) - coalesce(cardinality(known), 0),
    last_published_at = leat_append.published_at
  where t.id = the_tenant;
end $$;
