import type { DatabaseSync } from 'node:sqlite';
import { checkFormer, firstKeyCheck, type KeyCheckRow, passedKeyCheck } from '../../key-check.ts';
import {
  type AppliedMigration,
  migrate,
  type MigrationDriver,
  migrationsOf,
  type SchemaState,
} from '../../migrate.ts';
import type { Seal } from '../../seal.ts';
import type { SqliteLocation } from './connection.ts';
import { createDatabase, type Database } from './database.ts';
import { refusalOf } from './refusal.ts';

/**
 * Prepares an opened database for this program: migrates its schema, and checks the secret key
 * against the stored secrets. Throws `StartRefused` otherwise; a database that this program must
 * not use has not been written then.
 */
export async function prepareSchema(
  connection: DatabaseSync,
  location: SqliteLocation,
  seal: Seal,
): Promise<void> {
  const name = location.file ?? location.path;
  try {
    await migrate(migrationDriver(connection, name), migrationsOf('sqlite'), {
      last: formerMigration,
      check: () => checkFormer(name, seal, keyCheckRow(createDatabase(connection))),
    });
    proveKey(connection, name, seal);
    proveWritable(connection);
  } catch (error) {
    throw refusalOf(name, error);
  }
}

/** The last migration before the baseline. */
export const formerMigration: AppliedMigration = {
  name: '0047_last_attempts',
  checksum: 'e8bb9639b46d43eac9c4bea008de8e5c739b300a3d85b5d1fe4a6692a1565462',
};

/** The driver that runs and records migrations on SQLite. */
export function migrationDriver(connection: DatabaseSync, name: string): MigrationDriver {
  const db = createDatabase(connection);
  return {
    database: `LEAT_STORE: ${name}`,
    applied: () => {
      connection.exec(`
        create table if not exists leat_migrations (
          name text primary key,
          checksum text not null
        ) strict, without rowid`);
      return db.all`select name, checksum from leat_migrations order by name`;
    },
    state: () => {
      const table = db.get`select 1 from sqlite_schema where name = 'leat_schema'`;
      if (table === undefined) return undefined;
      return db.get<SchemaState>`
        select version, oldest_that_may_run as oldestThatMayRun from leat_schema`;
    },
    apply: ({ name: migration, sql, checksum }, state) => {
      db.transact('durable', () => {
        connection.exec(sql);
        db.run`insert into leat_migrations (name, checksum) values (${migration}, ${checksum})`;
        writeState(connection, db, state);
      });
    },
    adopt: ({ name: baseline, checksum }, last, state) => {
      db.transact('durable', () => {
        const former = db.get`select 1 from leat_migrations where name = ${last.name}`;
        if (former === undefined) return;
        db.run`delete from leat_migrations`;
        db.run`insert into leat_migrations (name, checksum) values (${baseline}, ${checksum})`;
        writeState(connection, db, state);
      });
    },
  };
}

/** One row: the number of the last migration, and that of the oldest program that may run on it. */
function writeState(connection: DatabaseSync, db: Database, state: SchemaState): void {
  connection.exec(`
    create table if not exists leat_schema (
      id integer primary key check (id = 1),
      version integer not null,
      oldest_that_may_run integer not null
    ) strict`);
  db.run`
    insert into leat_schema (id, version, oldest_that_may_run)
    values (1, ${state.version}, ${state.oldestThatMayRun})
    on conflict (id) do update set version = excluded.version,
      oldest_that_may_run = max(oldest_that_may_run, excluded.oldest_that_may_run)`;
}

function proveKey(connection: DatabaseSync, name: string, seal: Seal): void {
  const db = createDatabase(connection);
  if (keyCheckRow(db) === undefined) {
    const sealed = seal.sealCheck(firstKeyCheck(seal));
    db.transact('durable', () => {
      db.run`insert into key_check (id, sealed) values (1, ${sealed})`;
    });
  }
  passedKeyCheck(name, seal, keyCheckRow(db));
}

/** Returns the key check; `undefined` before the first start. */
function keyCheckRow(db: Database): KeyCheckRow | undefined {
  return db.get`select sealed from key_check`;
}

/** `Leat` in ASCII, by which file(1) and other programs recognise the file. */
export const applicationId = 0x4c656174;

/** A full disk and a read-only database report success until the first page is written. */
function proveWritable(connection: DatabaseSync): void {
  connection.exec(`begin immediate; pragma application_id = ${applicationId}; commit`);
}
