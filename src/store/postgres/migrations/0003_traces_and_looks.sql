-- Where a publisher stands in a trace, and what operators were told.

alter table events add column trace text;       -- W3C traceparent of the request that published it

alter table deliveries add column trace text;   -- only while the log does not have the event

-- When a limit disabled the stream last; it stays when somebody enables it, so that a look still sees it.
alter table streams add column disabled_at bigint;

create table looks (
  tenant integer primary key,
  at bigint not null,                           -- of the last look at the failures
  state text not null                           -- what the next look has to know
);

-- As the first edition, which it takes the place of, with the traces: an array as long as the others,
-- or an empty one where no event has a trace.
drop function leat_append(integer, bigint, text[], boolean[], text[], bigint[], text[]);

create function leat_append(
  the_tenant integer, now_ms bigint, ids text[], chosen boolean[], types text[], times bigint[],
  bodies text[], traces text[], out head bigint, out published_at bigint, out known text[],
  out known_at bigint[]
) language plpgsql as $$
declare
  pruned bigint;
begin
  select t.head, greatest(now_ms, t.last_published_at), t.pruned_to
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
