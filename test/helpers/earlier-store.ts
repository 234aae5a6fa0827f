import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import pg from 'pg';

/**
 * The stores of `test/store/earlier`, which the program of an earlier day has filled: see the README
 * there. Nothing here knows the schema of the program under test.
 */

export type EngineName = 'sqlite' | 'postgres';

const folder = new URL('../store/earlier/', import.meta.url);

/** Returns the content of a packed file. */
export function unpack(name: string): Buffer {
  return brotliDecompressSync(readFileSync(new URL(`${name}.br`, folder)));
}

/** Writes the file of the store of SQLite; returns its path. */
export function writeSqlite(into: string): string {
  const file = join(into, 'leat.db');
  writeFileSync(file, unpack('sqlite.db'), { mode: 0o600 });
  return file;
}

/** Fills an empty database whose owner is a superuser. */
export async function loadPostgres(url: string): Promise<void> {
  await script(url, clockOf(new URL(url).pathname.slice(1)));
  // Triggers would count the rows again.
  const rows = unpack('postgres.sql').toString();
  await script(url, `begin; set local session_replication_role = replica; ${rows}; commit`);
}

/** Sets how far the clock of the database is ahead. */
export async function setPostgresClock(url: string, aheadMs: number): Promise<void> {
  await script(url, `update test_clock.ahead set ms = ${Math.round(aheadMs)}`);
}

export async function script(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

/**
 * Gives a database a clock of its own: its sessions find these functions before those of PostgreSQL. They
 * have to exist before the functions of the schema, which are bound to them when they are created.
 */
function clockOf(database: string): string {
  const names = { clock_timestamp: 'volatile', now: 'stable', statement_timestamp: 'stable' };
  const functions = Object.entries(names).map(
    ([name, kind]) => `
      create function public.${name}() returns timestamptz language sql ${kind} parallel safe as
        'select pg_catalog.${name}() + (select ms from test_clock.ahead) * interval ''1 ms'''`,
  );
  return `
    create schema test_clock;
    create table test_clock.ahead (ms bigint not null);
    insert into test_clock.ahead values (0);
    ${functions.join(';')};
    alter database ${pg.escapeIdentifier(database)} set search_path = public, pg_catalog`;
}
