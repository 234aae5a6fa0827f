-- oldest that may run: 0014

-- Reads a page of the log by one round trip and on one snapshot, and compares the store. Most of what a
-- page of a few events costs is planning, and nodes that wait for each other's events read such pages
-- all the time: a session plans once where the page ends.
--
-- Returns the events, until `take` of them or the first that exceeds the limit on bytes, but always one
-- if there is any; and last, with an id of null, the head of the log, the position of the server's log,
-- and the offset up to which the page has every event of the types.
create function leat_page(
  the_generation bigint, the_identity text, the_flushed bigint, the_tenant integer,
  after_offset bigint, last_offset bigint, offsets_max bigint, days_max integer, the_types text[],
  take bigint, bytes_max bigint
) returns table (
  "offset" bigint, id text, type text, "time" bigint, published_at bigint, body text, trace text,
  head bigint, flushed bigint, scanned_to bigint
) language plpgsql stable as $$
#variable_conflict use_column
declare
  stretch record;
  event record;
  found_last bigint;
  events_read bigint := 0;
  bytes bigint := 0;
begin
  select coalesce(t.head, 0) as head, greatest(t.pruned_to, after_offset) as after, s.up_to, s.from_at,
      s.to_at into stretch
    from (select the_tenant as id) as wanted
    left join tenants t on t.id = wanted.id
    cross join lateral leat_stretch(the_tenant, greatest(t.pruned_to, after_offset),
      least(coalesce(t.head, 0), last_offset, greatest(t.pruned_to, after_offset) + offsets_max),
      days_max) as s;
  scanned_to := greatest(after_offset, stretch.up_to);
  if stretch.up_to > stretch.after then
    -- Planned at each call, with the days as constants: a plan that is kept locks every partition.
    for event in execute
      'select e."offset", e.id, e.type, e.time, e.published_at, e.body, e.trace from events e
        where e.tenant = $1 and e."offset" > $2 and e."offset" <= $3
          and e.published_at >= $4 and e.published_at < $5 and ($6 is null or e.type = any($6))
        order by e."offset" limit $7'
      using the_tenant, stretch.after, stretch.up_to, stretch.from_at, stretch.to_at, the_types, take
    loop
      bytes := bytes + octet_length(event.body);
      if bytes > bytes_max and events_read > 0 then
        scanned_to := found_last;
        exit;
      end if;
      events_read := events_read + 1;
      found_last := event."offset";
      "offset" := event."offset";
      id := event.id;
      type := event.type;
      "time" := event.time;
      published_at := event.published_at;
      body := event.body;
      trace := event.trace;
      return next;
    end loop;
    if events_read = take then scanned_to := found_last; end if;
  end if;
  "offset" := null; id := null; type := null; "time" := null; published_at := null; body := null;
  trace := null;
  head := stretch.head;
  -- Last: it sees what was committed while the function waited for a lock, as for one of a restore.
  flushed := leat_compare(the_generation, the_identity, the_flushed);
  return next;
end $$;
