import { createHash } from 'node:crypto';
import type { Clock, RandomBytes } from '../../core/clock.ts';
import { StartRefused, StoreUnavailable } from '../../core/errors.ts';
import type { StoreLocation } from '../../core/value.ts';
import { countText, type MigratePoint, type MigrateProgressView } from './progress.ts';
import {
  keyOf,
  migratedTables,
  nameOfRow,
  type RowKey,
  type Table,
  type TableRow,
} from './table.ts';
import { type MigrationTarget, openMigrationTarget } from '../engine/postgres/migrate-store.ts';
import { passedKeyCheck } from '../key-check.ts';
import { createSeal } from '../seal.ts';
import { type MigrationSource, openMigrationSource } from '../engine/sqlite/migrate-store.ts';

export interface MigrateStoreOptions {
  readonly from: StoreLocation;
  readonly to: StoreLocation;
  /** Called once the source is open; the same keys open the secrets of both stores. */
  readonly secretKeys: () => Promise<readonly Uint8Array[]>;
  readonly random: RandomBytes;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly progress: MigrateProgressView;
}

export interface MigratedStore {
  /** The name of the target in messages, without a password. */
  readonly target: string;
  /**
   * The store was migrated by an earlier run. Nothing was done, even if the source has changed
   * since.
   */
  readonly wasComplete: boolean;
  readonly tables: readonly TableCount[];
  /** Duration of this run. */
  readonly copied: number;
  readonly copyMs: number;
}

interface TableCount {
  readonly name: string;
  readonly rows: number;
  /** SHA-256 in hexadecimal of the rows as lines of JSON, in the order of their keys. */
  readonly checksum: string;
}

/**
 * Copies a whole store from a SQLite file to PostgreSQL, then reads both and compares every row.
 * Does not change the source. An interrupted migration continues where it stopped when it is run
 * again. Until it is complete no server starts on the target.
 *
 * Throws `StartRefused` with one line for the operator.
 */
export async function migrateStore(options: MigrateStoreOptions): Promise<MigratedStore> {
  const { file, url } = endsOf(options);
  const source = openMigrationSource(file);
  try {
    const seal = createSeal(await options.secretKeys(), options.random);
    passedKeyCheck(file, seal, { sealed: source.keyCheck });
    const target = await openMigrationTarget(url, { seal, keyProof: source.keyCheck });
    try {
      return await copyStore(source, target, options);
    } finally {
      options.progress.end();
      await target.close();
    }
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    const message = `--to: ${error.message}; run the command again, it goes on where it was`;
    throw new StoreUnavailable(message, { cause: error });
  } finally {
    source.close();
  }
}

async function copyStore(
  source: MigrationSource,
  target: MigrationTarget,
  options: MigrateStoreOptions,
): Promise<MigratedStore> {
  const { name } = target;
  if (target.isComplete) {
    return { target: name, wasComplete: true, tables: [], copied: 0, copyMs: 0 };
  }
  const total = migratedTables.reduce((sum, table) => sum + source.count(table), 0);
  const show = (step: MigratePoint['step'], table: Table, done: number): void =>
    options.progress.show({ step, table: table.name, done, total });

  const startedMs = options.clock.elapsedMs();
  let done = migratedTables.reduce((sum, table) => sum + target.progressOf(table).rows, 0);
  const before = done;
  for (const table of migratedTables) {
    await copyTable(source, target, table, (rows) => show('copying', table, (done += rows)));
  }
  await target.complete(new Map(migratedTables.map((table) => [table, source.numbered(table)])));
  const copyMs = options.clock.elapsedMs() - startedMs;

  const tables: TableCount[] = [];
  let seen = 0;
  for (const table of migratedTables) {
    const compared = await compareTable(source, target, table, (rows) =>
      show('comparing', table, (seen += rows)),
    );
    tables.push(compared);
  }
  await target.release();
  return { target: name, wasComplete: false, tables, copied: done - before, copyMs };
}

/** Some hundred kilobytes as a rule: a batch is a transaction of well below a second. */
const page = { rows: 1000, characters: 4 << 20 };

/** Reads the next page while PostgreSQL writes the previous one. */
async function copyTable(
  source: MigrationSource,
  target: MigrationTarget,
  table: Table,
  copied: (rows: number) => void,
): Promise<void> {
  let rows = source.read(table, target.progressOf(table).last, page);
  while (rows.length > 0) {
    const written = target.write(table, rows);
    const [, next] = await alongside(written, () => source.read(table, lastKey(table, rows), page));
    copied(rows.length);
    rows = next;
  }
}

/** Compares both sides page by page; a page that differs is compared row by row. */
async function compareTable(
  source: MigrationSource,
  target: MigrationTarget,
  table: Table,
  compared: (rows: number) => void,
): Promise<TableCount> {
  const checksum = createHash('sha256');
  let rows = source.read(table, undefined, page);
  let after: RowKey | undefined;
  let count = 0;
  while (rows.length > 0) {
    const arriving = target.read(table, after, rows.length);
    after = lastKey(table, rows);
    const [arrived, next] = await alongside(arriving, () => source.read(table, after, page));
    const lines = linesOf(rows);
    if (lines !== linesOf(arrived))
      throw difference(target.name, table, firstDifference(table, rows, arrived));
    checksum.update(lines);
    count += rows.length;
    compared(rows.length);
    rows = next;
  }
  const [more] = await target.read(table, after, 1);
  if (more !== undefined) throw difference(target.name, table, keyOf(table, more));
  return { name: table.name, rows: count, checksum: checksum.digest('hex') };
}

/**
 * Runs work of this process while the database runs its own, and returns both results. The work
 * blocks the event loop, so it starts after the turn in which the statement was sent.
 */
function alongside<A, B>(database: Promise<A>, work: () => B): Promise<[A, B]> {
  const sent = new Promise<void>((resolve) => {
    setImmediate(resolve);
  });
  return Promise.all([database, sent.then(work)]);
}

function lastKey(table: Table, rows: readonly TableRow[]): RowKey | undefined {
  const last = rows.at(-1);
  return last === undefined ? undefined : keyOf(table, last);
}

function linesOf(rows: readonly TableRow[]): string {
  return rows.map(lineOf).join('');
}

function lineOf(row: TableRow): string {
  return `${JSON.stringify(row)}\n`;
}

function firstDifference(
  table: Table,
  rows: readonly TableRow[],
  arrived: readonly TableRow[],
): RowKey {
  const index = rows.findIndex((row, at) => lineOf(row) !== lineOf(arrived[at] ?? []));
  return keyOf(table, rows[index] ?? arrived[0] ?? []);
}

function difference(target: string, table: Table, key: RowKey): StartRefused {
  return new StartRefused(
    `--to: ${table.name} in ${target} is not what the source has, first at ${nameOfRow(table, key)}: drop the database, create it again and run the command again`,
  );
}

function endsOf({ from, to }: MigrateStoreOptions): { file: string; url: string } {
  if (from.engine !== 'sqlite' || from.file === undefined) {
    throw new StartRefused('--from: names no SQLite file, for example --from sqlite:data/leat.db');
  }
  if (to.engine !== 'postgres') {
    throw new StartRefused(
      '--to: names no PostgreSQL database, for example --to postgres://leat@db.example.com/leat',
    );
  }
  return { file: from.file, url: to.url };
}

/** Returns the text to print after a migration. */
export function describeMigrated({
  target,
  wasComplete,
  tables,
  copied,
  copyMs,
}: MigratedStore): string {
  if (wasComplete) {
    return `Nothing was done: this store came to ${target} before. What the source took in since then is not there; it takes a move to another, empty database.`;
  }
  const lines = tables.map(
    ({ name, rows, checksum }) =>
      `  ${name.padEnd(18)}${countText(rows).padStart(14)}  ${checksum.slice(0, 16)}`,
  );
  const seconds = copyMs / 1000;
  const rate = countText(Math.round(copied / Math.max(seconds, 0.001)));
  return [
    `Everything is in ${target}, and every row is what it was in the source.`,
    `  ${'table'.padEnd(18)}${'rows'.padStart(14)}  checksum`,
    ...lines,
    `${countText(copied)} rows copied in ${seconds.toFixed(1)} s, ${rate} a second.`,
  ].join('\n');
}
