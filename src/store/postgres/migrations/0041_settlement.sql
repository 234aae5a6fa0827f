-- oldest that may run: 0014

-- What a settlement does besides the history, and every heartbeat: a session plans the statements of a
-- function once, also behind a pooler, where a client cannot have prepared statements. Planned at each
-- call they took most of the processor time of a settlement.

-- Compares the store, begins a batch of a node and locks the runs of these streams, always in the same
-- order. The first row has the position of the server's log, whether the batch is a new one of this
-- incarnation, and the time after the locks; the others are the runs.
create function leat_begin_batch(
  the_generation bigint, the_identity text, the_flushed bigint, the_node text,
  the_incarnation integer, the_batch integer, the_tenants integer[], the_streams text[]
) returns table (
  flushed bigint, begun boolean, now bigint, key bigint, tenant integer, stream text, cursor bigint,
  run integer, consecutive_failures integer, total_failures integer, owner text, epoch integer,
  paused_ms bigint, status text, version integer, subscriptions text, paused_at bigint
) language plpgsql as $$
#variable_conflict use_column
begin
  flushed := leat_compare(the_generation, the_identity, the_flushed);
  update nodes set last_batch = the_batch
    where id = the_node and incarnation = the_incarnation and last_batch < the_batch;
  begun := found;
  -- Two statements: one that waits for a lock may return data from before the lock.
  perform 1 from runs
    where (tenant, stream) in (select * from unnest(the_tenants, the_streams))
    order by tenant, stream for no key update;
  now := leat_now();
  return next;
  return query
    select null::bigint, null::boolean, null::bigint, r.key, r.tenant, r.stream, r.cursor, r.run,
      r.consecutive_failures, r.total_failures, r.owner, r.epoch, r.paused_ms, s.status, s.version,
      s.subscriptions, s.paused_at
    from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
    where (r.tenant, r.stream) in (select * from unnest(the_tenants, the_streams));
end $$;

-- Writes the changes of locked runs.
create function leat_write_runs(
  the_tenants integer[], the_streams text[], the_cursors bigint[], the_runs integer[],
  the_consecutive integer[], the_totals integer[], the_paused_ms bigint[],
  the_delivered_at bigint[], the_failed_at bigint[], the_error_codes text[]
) returns void language plpgsql as $$
begin
  update runs set cursor = u.cursor, run = u.run, consecutive_failures = u.consecutive,
    total_failures = u.total, paused_ms = u.paused_ms,
    last_delivered_at = coalesce(u.delivered_at, last_delivered_at),
    last_failed_at = coalesce(u.failed_at, last_failed_at),
    last_error_code = coalesce(u.error_code, last_error_code)
  from unnest(the_tenants, the_streams, the_cursors, the_runs, the_consecutive, the_totals,
      the_paused_ms, the_delivered_at, the_failed_at, the_error_codes)
    as u(tenant, stream, cursor, run, consecutive, total, paused_ms, delivered_at, failed_at,
      error_code)
  where runs.tenant = u.tenant and runs.stream = u.stream;
end $$;

-- Adds deliveries that ended to an hour. The first addition of an hour removes the hours of the stream
-- before another one.
create function leat_add_stats(
  the_hour bigint, kept_from bigint, the_tenants integer[], the_streams text[],
  the_delivered integer[], the_failed integer[]
) returns void language plpgsql as $$
declare
  added record;
begin
  for added in
    insert into stream_stats as s (tenant, stream, hour, delivered, failed)
    select u.tenant, u.stream, the_hour, u.delivered, u.failed
    from unnest(the_tenants, the_streams, the_delivered, the_failed)
      as u(tenant, stream, delivered, failed)
    on conflict (tenant, stream, hour) do update set
      delivered = s.delivered + excluded.delivered, failed = s.failed + excluded.failed
    returning s.tenant, s.stream, xmax = 0 as is_first
  loop
    continue when not added.is_first;
    delete from stream_stats s
      where s.tenant = added.tenant and s.stream = added.stream and s.hour < kept_from;
  end loop;
end $$;

-- Compares the store and renews the lease of a node. The first row has the position of the server's log,
-- the time, whether the lease had lapsed, how many nodes live and how many of them have a clock that is
-- right, and how many streams need an owner, unless the node is alone and has them all; the others are
-- the changed streams of the node. The time is null when no such node was renewed.
create function leat_heartbeat(
  the_generation bigint, the_identity text, the_flushed bigint, the_node text,
  the_incarnation integer, the_lease_ms bigint, the_skew_ms bigint, skew_max_ms bigint
) returns table (
  flushed bigint, now bigint, lapsed boolean, living bigint, in_time bigint, wanted bigint,
  tenant integer, stream text
) language plpgsql as $$
#variable_conflict use_column
begin
  flushed := leat_compare(the_generation, the_identity, the_flushed);
  with before as (
    select id, lease_until <= clock_timestamp() as has_lapsed from nodes
    where id = the_node and incarnation = the_incarnation for no key update)
  update nodes set lease_until = clock_timestamp() + the_lease_ms * interval '1 ms',
    lease_ms = the_lease_ms, skew_ms = the_skew_ms, freed = false
  from before where nodes.id = before.id
  returning leat_now(), before.has_lapsed into now, lapsed;
  select count(*), count(*) filter (where abs(skew_ms) <= skew_max_ms) into living, in_time
  from nodes where lease_until > clock_timestamp();
  if living > 1 then
    select count(*) into wanted from streams s
    where status = 'enabled' or exists (
      select 1 from deliveries d
      where d.tenant = s.tenant and d.stream = s.id and d.due_at is not null
        and d.kind <> 'replay');
  end if;
  return next;
  return query
    select null::bigint, null::bigint, null::boolean, null::bigint, null::bigint, null::bigint,
      r.tenant, r.stream
    from runs r where r.owner = the_node and r.unseen;
end $$;
