-- Which store this is. After a fail-over to a replica or a restore from a backup the rows may be those
-- of an earlier time, and what nodes remember of the store is void: so commands that build on it compare
-- the store with the one that their process joined.

-- One row. The generation rises each time that a process finds the store to be another one than the
-- row, or the process itself, knows.
create table store (
  id integer primary key check (id = 1),
  generation bigint not null,
  identity text collate "C"                     -- see leat_identity(); null before the first process
);

insert into store (id, generation) values (1, 0);

-- What is another one after a restore or a fail-over: the cluster, the database, the table `tenants`,
-- and the timeline, which a promotion raises at once. Cluster and database are the same for as long as
-- a connection lives, and take a file and a look-up to find out: the session keeps them. Whatever a
-- pooler shares between transactions is one connection to one server all the same.
create function leat_identity() returns text language plpgsql as $$
declare
  place text := current_setting('leat.place', true);
begin
  if coalesce(place, '') = '' then
    select c.system_identifier || '/' || d.oid into place
      from pg_control_system() c, pg_database d where d.datname = current_database();
    perform set_config('leat.place', place, false);
  end if;
  return place || '/' || 'tenants'::regclass::oid || '/'
    || left(pg_walfile_name(pg_current_wal_lsn()), 8);
end $$;

-- The position up to which the log of the server is on its disk, in bytes.
create function leat_flushed() returns bigint language sql as $$
  select (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint
$$;

-- Fails with LT409 unless the store is the one of this generation and identity, and its log reaches as
-- far as it did; answers how far it reaches now. Without a generation nothing is compared. On a server
-- that follows another one it fails as any change does there.
create function leat_compare(the_generation bigint, the_identity text, the_flushed bigint)
returns bigint language plpgsql as $$
declare
  flushed bigint;
begin
  if the_generation is null then return null; end if;
  if pg_is_in_recovery() then
    raise exception 'cannot work on a server that follows another one' using errcode = '25006';
  end if;
  flushed := (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint;
  if flushed < the_flushed or the_identity is distinct from leat_identity()
    or the_generation is distinct from (select s.generation from store s where s.id = 1) then
    raise exception 'the store is another one than the process joined' using errcode = 'LT409';
  end if;
  return flushed;
end $$;
