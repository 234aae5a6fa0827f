import { StartRefused } from '../../../core/errors.ts';
import { checkFormer, firstKeyCheck, type KeyCheckRow, passedKeyCheck } from '../../key-check.ts';
import {
  type AppliedMigration,
  migrate,
  type Migration,
  migrationsOf,
  type SchemaState,
  versionOf,
} from '../../migrate.ts';
import type { Seal } from '../../seal.ts';
import type { Database, Queries } from './database.ts';
import { makeDaysAhead, schemaLock } from './partitions.ts';
import { refusalOf } from './refusal.ts';

/**
 * Prepares a database for this program: migrates its schema, and checks the secret key against the
 * stored secrets. Any number of nodes may start at once: one migrates and the others wait for it.
 * Throws `StartRefused`.
 *
 * @param name of the database in messages; no password
 */
export async function prepareSchema(db: Database, name: string, seal: Seal): Promise<void> {
  try {
    await requireEncoding(db, name);
    await migrate(
      {
        database: `LEAT_STORE: ${name}`,
        applied: () => appliedTo(db),
        state: () => schemaState(db),
        apply: (migration, state) => db.script(applyScript(migration, state)),
        adopt: (baseline, last, state) => db.script(adoptScript(baseline, last, state)),
      },
      migrationsOf('postgres'),
      {
        last: {
          name: '0049_failing_age',
          checksum: 'e865c1e2c3c8a65ddfbeb32e6ee7b1f99002d0ecf0ee67897dffae1389901973',
        },
        check: async () => checkFormer(name, seal, await keyCheckRow(db)),
      },
    );
    await makeDaysAhead(db);
    await proveKey(db, name, seal);
  } catch (error) {
    throw refusalOf(name, error);
  }
}

/** Throws `StartRefused` where the database cannot hold every text, or does not know what it holds. */
async function requireEncoding(db: Queries, name: string): Promise<void> {
  const row = await db.get<{ encoding: string }>`
    select current_setting('server_encoding') as encoding`;
  if (row === undefined || row.encoding === 'UTF8') return;
  throw new StartRefused(
    `LEAT_STORE: ${name}: its encoding is ${row.encoding}, which cannot hold every text: make a new ` +
      'database with createdb -E UTF8 -T template0, and copy the tables of an older one by pg_dump and pg_restore',
  );
}

/** The number of this program's last migration. */
export function ownVersion(): number {
  return versionOf(migrationsOf('postgres'));
}

/** As the last migration left it; `undefined` if none has written it yet. */
export async function schemaState(db: Queries): Promise<SchemaState | undefined> {
  const table = await db.get<{ isThere: boolean }>`
    select to_regclass('leat_schema') is not null as "isThere"`;
  if (table?.isThere !== true) return undefined;
  return db.get<SchemaState>`
    select version, oldest_that_may_run as "oldestThatMayRun" from leat_schema`;
}

const takeLock = `select pg_advisory_xact_lock(${schemaLock})`;

async function appliedTo(db: Database): Promise<AppliedMigration[]> {
  await db.script(`
    begin;
    ${takeLock};
    create table if not exists leat_migrations (
      name text collate "C" primary key,
      checksum text not null
    );
    commit`);
  return db.all`select name, checksum from leat_migrations order by name`;
}

/**
 * One transaction under the lock. If another node has applied the migration while this one waited,
 * there is nothing left to do.
 */
function applyScript({ name, checksum, sql }: Migration, state: SchemaState): string {
  const tag = '$leat_migration$';
  return `
    begin;
    ${takeLock};
    do $leat$ begin
      if not exists (select 1 from leat_migrations where name = '${name}') then
        execute ${tag}${sql}${tag};
        insert into leat_migrations (name, checksum) values ('${name}', '${checksum}');
        ${stateScript(state)};
      end if;
    end $leat$;
    commit`;
}

/**
 * Drops what only programs from before the baseline called. One transaction under the lock: another
 * node may have adopted the schema while this one waited.
 */
function adoptScript(
  { name, checksum }: Migration,
  last: AppliedMigration,
  state: SchemaState,
): string {
  return `
    begin;
    ${takeLock};
    do $leat$ begin
      if exists (select 1 from leat_migrations where name = '${last.name}') then
        drop function leat_append(integer, text[], boolean[], text[], bigint[], text[], text[]);
        drop function leat_begin_batch;
        drop function leat_heartbeat;
        drop function leat_write_runs;
        delete from leat_migrations;
        insert into leat_migrations (name, checksum) values ('${name}', '${checksum}');
        ${stateScript(state)};
      end if;
    end $leat$;
    commit`;
}

/** One row: the number of the last migration, and that of the oldest program that may run on it. */
function stateScript({ version, oldestThatMayRun }: SchemaState): string {
  return `
    create table if not exists leat_schema (
      id integer primary key check (id = 1),
      version integer not null,
      oldest_that_may_run integer not null
    );
    insert into leat_schema as s (id, version, oldest_that_may_run)
      values (1, ${version}, ${oldestThatMayRun})
      on conflict (id) do update set version = excluded.version,
        oldest_that_may_run = greatest(s.oldest_that_may_run, excluded.oldest_that_may_run)
        where s.version <= excluded.version`;
}

async function proveKey(db: Database, name: string, seal: Seal): Promise<void> {
  await db.run`
    insert into key_check (id, sealed) values (1, ${seal.sealCheck(firstKeyCheck(seal))})
    on conflict (id) do nothing`;
  passedKeyCheck(name, seal, await keyCheckRow(db));
}

/** Returns the key check; `undefined` before the first start. */
export function keyCheckRow(db: Queries): Promise<KeyCheckRow | undefined> {
  return db.get`select sealed from key_check`;
}
