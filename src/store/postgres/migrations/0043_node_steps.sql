-- oldest that may run: 0014

-- The numbers of a node's batches and claims. In its row of `nodes` a settlement that waited for a lock made
-- the heartbeat wait as well, until the lease had ended.
create table node_steps (
  node text not null references nodes (id) on delete cascade,
  kind text not null,                           -- 'batch' or 'claim'
  incarnation integer not null,
  last_number integer not null,                 -- of this incarnation
  primary key (node, kind)
);

-- Notes that a node does a step, until the commit alone; false when it has done it before, or when the
-- incarnation is not the present one. Does not lock the row of the node: the runs that a step writes are
-- locked by it and have the epoch of their owner.
create function leat_begin_step(
  the_node text, the_incarnation integer, the_kind text, the_number integer
) returns boolean language plpgsql as $$
begin
  insert into node_steps as s (node, kind, incarnation, last_number)
    select id, the_kind, incarnation, the_number from nodes
    where id = the_node and incarnation = the_incarnation
    on conflict (node, kind) do update
      set incarnation = excluded.incarnation, last_number = excluded.last_number
      where (s.incarnation, s.last_number) < (excluded.incarnation, excluded.last_number);
  return found;
end $$;

-- As leat_begin_batch, which programs of before use, without the row of the node.
create function leat_begin_settlement(
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
  begun := leat_begin_step(the_node, the_incarnation, 'batch', the_batch);
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
