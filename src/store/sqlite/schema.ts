import type { DatabaseSync } from 'node:sqlite';
import { keyProof, provesKey } from '../key-proof.ts';
import { migrate, readMigrations, type MigrationDriver } from '../migrate.ts';
import type { Seal } from '../seal.ts';
import { defineTestKey } from './attempts.ts';
import type { SqliteLocation } from './connection.ts';
import { createDatabase } from './database.ts';
import { refusalOf } from './refusal.ts';

/**
 * Makes an opened database ready for this program: its schema is brought up to date, and the secret
 * key proves that it fits the secrets stored there. Throws `StartRefused` otherwise; a database that
 * this program must not touch has not been written then.
 */
export async function prepareSchema(
  connection: DatabaseSync,
  location: SqliteLocation,
  seal: Seal,
): Promise<void> {
  const name = location.file ?? location.path;
  try {
    await migrate(migrationDriver(connection, name), readMigrations(folder));
    proveKey(connection, name, seal);
    proveWritable(connection);
  } catch (error) {
    throw refusalOf(name, error);
  }
}

const folder = new URL('migrations/', import.meta.url);

/** How SQLite runs and remembers migrations. */
export function migrationDriver(connection: DatabaseSync, name: string): MigrationDriver {
  defineTestKey(connection);
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
    apply: ({ name: migration, sql, checksum }) => {
      db.transact('durable', () => {
        connection.exec(sql);
        db.run`insert into leat_migrations (name, checksum) values (${migration}, ${checksum})`;
      });
    },
  };
}

function proveKey(connection: DatabaseSync, name: string, seal: Seal): void {
  const db = createDatabase(connection);
  const stored = db.get<{ sealed: Uint8Array }>`select sealed from key_proof`;
  if (stored === undefined) {
    const sealed = seal.seal(keyProof);
    db.transact('durable', () => db.run`insert into key_proof (id, sealed) values (1, ${sealed})`);
  } else {
    provesKey(name, seal, stored.sealed);
  }
}

/** `Leat` in ASCII: how file(1) and other programs know the file. */
export const applicationId = 0x4c656174;

/** A full disk and a database opened read-only answer success until the first page is written. */
function proveWritable(connection: DatabaseSync): void {
  connection.exec(`begin immediate; pragma application_id = ${applicationId}; commit`);
}
