import { createHash } from 'node:crypto';
import type { AssetFolder } from '../core/asset.ts';
import { StartRefused } from '../core/errors.ts';

/**
 * Migrates a database to the schema of this program: applies the missing migrations in order. There
 * is no way back. A database that a newer version has migrated is used as it is if that version
 * allows this program to run on it, and is not touched otherwise; nor is one whose applied
 * migrations differ from those of this program.
 *
 * Throws `StartRefused` in these cases, and when a migration fails; migrations applied before that
 * one stay.
 *
 * @returns the names of the migrations applied now
 */
export async function migrate(
  driver: MigrationDriver,
  migrations: readonly Migration[],
): Promise<string[]> {
  const applied = await driver.applied();
  const state = await driver.state();
  const refusal = schemaRefusal(applied, migrations, state);
  if (refusal !== undefined) throw new StartRefused(`${driver.database} ${refusal}`);
  const missing = migrations.slice(applied.length);
  for (const [index, migration] of missing.entries()) {
    const version = applied.length + index + 1;
    await applyOne(driver, migration, stateAfter(migrations.slice(0, version)));
  }
  // The database was last used before this row existed.
  if (state === undefined && missing.length === 0) await driver.record(stateAfter(migrations));
  return missing.map((migration) => migration.name);
}

/**
 * Returns why this program may not use the database, as the text after its name in a message, or
 * `undefined` if it may once the missing migrations are applied.
 */
export function schemaRefusal(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
  state?: SchemaState,
): string | undefined {
  for (const [index, { name, checksum }] of applied.entries()) {
    const own = migrations[index];
    if (own === undefined) {
      // Without a row for the last migration nothing is known about older programs.
      const isKnown = state?.version === applied.length;
      if (isKnown && mayRun(state, migrations.length)) return undefined;
      return `was changed by a newer version of Leat (${name}): run that version, or restore a backup from before it`;
    }
    if (own.name !== name || own.checksum !== checksum) {
      return `was made by another edition of Leat (its ${name} is not this one's ${own.name}): run the edition that made it`;
    }
  }
  return undefined;
}

/** The version of a schema is the number of its last migration. */
export interface SchemaState {
  readonly version: number;
  /** Programs whose own last migration has a lower number must not run on the schema. */
  readonly oldestThatMayRun: number;
}

/** Returns whether a program whose last migration has the number `own` may run on the schema. */
export function mayRun({ oldestThatMayRun }: SchemaState, own: number): boolean {
  return own >= oldestThatMayRun;
}

/**
 * Returns the state after the last of these migrations: none lowers the requirement of an earlier
 * one.
 */
function stateAfter(migrations: readonly Migration[]): SchemaState {
  const oldest = migrations.map(({ oldestThatMayRun }) => oldestThatMayRun);
  return { version: migrations.length, oldestThatMayRun: Math.max(...oldest) };
}

/** One step of the schema. */
export interface Migration {
  /** `0001_log`: a number, 1 for the first, and the subject. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of `sql` in hexadecimal. */
  readonly checksum: string;
  /**
   * Programs that have the migration of this number may run on the result. Read from the first line
   * of the file, `-- oldest that may run: 0007`; without that line it is the migration's own
   * number.
   */
  readonly oldestThatMayRun: number;
}

/** A migration as the database has recorded it. */
export type AppliedMigration = Pick<Migration, 'name' | 'checksum'>;

/**
 * What an engine provides for {@link migrate}. No other process may migrate the database during it.
 */
export interface MigrationDriver {
  /** The name of the database in messages, for example `The database data/leat.db`; no password. */
  readonly database: string;
  /** In the order of their names; none in a fresh database. */
  applied(): readonly AppliedMigration[] | Promise<readonly AppliedMigration[]>;
  /** As the last migration left it; `undefined` if no migration has written it yet. */
  state(): SchemaState | undefined | Promise<SchemaState | undefined>;
  /** Runs the SQL, records the migration and the state after it, in one transaction. */
  apply(migration: Migration, state: SchemaState): void | Promise<void>;
  /** Records a state where there is none. */
  record(state: SchemaState): void | Promise<void>;
}

/**
 * Reads the migrations of a folder: `NNNN_name.sql`, numbered from 0001 without a gap. Throws when
 * there is another file, or when a number is missing or used twice: that is a broken installation.
 */
export function readMigrations(folder: AssetFolder): Migration[] {
  return folder.names().map((file, index) => {
    const number = String(index + 1).padStart(4, '0');
    if (!file.startsWith(`${number}_`) || !file.endsWith('.sql')) {
      throw new StartRefused(`${file} in ${folder.name} is not migration ${number}_<name>.sql`);
    }
    const sql = folder.read(file).toString('utf8');
    const declared = /^-- oldest that may run: ([0-9]{4})\n/.exec(sql)?.[1];
    const oldestThatMayRun = declared === undefined ? index + 1 : Number(declared);
    if (oldestThatMayRun > index + 1 || oldestThatMayRun < 1) {
      throw new StartRefused(`${file} in ${folder.name} names a later migration as the oldest`);
    }
    return {
      name: file.slice(0, -'.sql'.length),
      sql,
      checksum: checksumOf(sql),
      oldestThatMayRun,
    };
  });
}

function checksumOf(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

async function applyOne(
  driver: MigrationDriver,
  migration: Migration,
  state: SchemaState,
): Promise<void> {
  try {
    await driver.apply(migration, state);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartRefused(`${driver.database} cannot be migrated (${migration.name}): ${reason}`, {
      cause: error,
    });
  }
}
