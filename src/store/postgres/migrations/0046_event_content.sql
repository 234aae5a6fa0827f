-- oldest that may run: 0014

-- A keyed hash of type and data of an event whose id its publisher chose (rules/content.ts); null for others,
-- and for those that were published before. The key differs from tenant to tenant.
alter table tenants add column content_key bytea not null default uuid_send(gen_random_uuid());
alter table events add column content bytea;

-- As the edition with seven arguments, which programs of before use, but for `contents`: 32 hexadecimal digits
-- each, or none. With a chosen id that the log has with another content it appends nothing, and `in_use` is that id.
create function leat_append(
  the_tenant integer, ids text[], chosen boolean[], types text[], times bigint[],
  bodies text[], traces text[], contents text[], out head bigint, out published_at bigint,
  out known text[], out known_at bigint[], out in_use text
) language plpgsql as $$
declare
  pruned bigint;
  former_at bigint;
  oldest_day_at bigint;
  key bytea;
begin
  select t.head, greatest(leat_now(), t.last_published_at), t.pruned_to, t.last_published_at, t.content_key
    into leat_append.head, leat_append.published_at, pruned, former_at, key
    from tenants t where t.id = the_tenant for no key update;
  if not found then return; end if;

  if true = any(chosen) then
    select s.from_at into oldest_day_at from leat_stretch(the_tenant, pruned, pruned + 1, 1) as s;
    select array_agg(k.id), array_agg(k.at),
        (array_agg(k.id order by array_position(ids, k.id)) filter (
          where k.content <> substr(sha256(key || decode(u.content, 'hex')), 1, 8)))[1]
      into known, known_at, in_use from (
        select distinct on (id) id, at, content from (
          select e.id, e."offset" as at, 1 as source, e.content from events e
            where e.tenant = the_tenant and e."offset" > pruned
              and e.published_at >= oldest_day_at
              and e.id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
          union all
          select d.event_id, d."offset", 2, null from deliveries d
            where d.tenant = the_tenant and d."offset" is not null
              and d.event_id in (select u.id from unnest(ids, chosen) as u(id, chosen) where u.chosen)
        ) as found order by id, source
      ) as k join unnest(ids, contents) as u(id, content) using (id);
    if in_use is not null then return; end if;
  end if;

  insert into events (tenant, "offset", id, type, time, published_at, body, trace, content)
    select the_tenant, leat_append.head + row_number() over (order by u.n), u.id, u.type, u.time,
      leat_append.published_at, u.body, u.trace, substr(sha256(key || decode(u.content, 'hex')), 1, 8)
    from unnest(ids, types, times, bodies, traces, contents)
      with ordinality as u(id, type, time, body, trace, content, n)
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
