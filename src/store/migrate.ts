import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { StartRefused } from '../core/errors.ts';

/**
 * Brings a database to the schema of this program: applies, in order, the migrations that it does
 * not have. There is no way back: a database that a newer version has changed, or whose applied
 * migrations are not the ones of this program, is left alone.
 *
 * Throws `StartRefused` then, and when a migration fails; what was applied before that one stays.
 *
 * @returns the names of the migrations applied now
 */
export async function migrate(
  driver: MigrationDriver,
  migrations: readonly Migration[],
): Promise<string[]> {
  const applied = await driver.applied();
  const refusal = schemaRefusal(applied, migrations);
  if (refusal !== undefined) throw new StartRefused(`${driver.database} ${refusal}`);
  const missing = migrations.slice(applied.length);
  for (const migration of missing) await applyOne(driver, migration);
  return missing.map((migration) => migration.name);
}

/**
 * Why the database may not be used by this program, as what follows its name in a message;
 * `undefined` where it may, once it has the migrations that are missing.
 */
export function schemaRefusal(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): string | undefined {
  for (const [index, { name, checksum }] of applied.entries()) {
    const own = migrations[index];
    if (own === undefined) {
      return `was changed by a newer version of Leat (${name}): run that version, or restore a backup from before it`;
    }
    if (own.name !== name || own.checksum !== checksum) {
      return `was made by another edition of Leat (its ${name} is not this one's ${own.name}): run the edition that made it`;
    }
  }
  return undefined;
}

/** One step of the schema. */
export interface Migration {
  /** `0001_log`: a number, 1 for the first, and what it is about. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of `sql` in hexadecimal. */
  readonly checksum: string;
}

/** A migration as the database remembers it. */
export type AppliedMigration = Pick<Migration, 'name' | 'checksum'>;

/** What an engine does for {@link migrate}. Nobody else may migrate the database meanwhile. */
export interface MigrationDriver {
  /** What messages call the database, for example `The database data/leat.db`; no password. */
  readonly database: string;
  /** In the order of their names; none in a fresh database. */
  applied(): readonly AppliedMigration[] | Promise<readonly AppliedMigration[]>;
  /** Runs the SQL and remembers the migration, in one transaction. */
  apply(migration: Migration): void | Promise<void>;
}

/**
 * Reads the migrations of a folder: `NNNN_name.sql`, numbered from 0001 without a gap. Throws when
 * another file is there or a number is missing or used twice: that is a broken installation.
 */
export function readMigrations(folder: URL): Migration[] {
  const files = readdirSync(folder).toSorted();
  return files.map((file, index) => {
    const number = String(index + 1).padStart(4, '0');
    if (!file.startsWith(`${number}_`) || !file.endsWith('.sql')) {
      throw new StartRefused(`${file} in ${folder.pathname} is not migration ${number}_<name>.sql`);
    }
    const sql = readFileSync(new URL(file, folder), 'utf8');
    return { name: file.slice(0, -'.sql'.length), sql, checksum: checksumOf(sql) };
  });
}

function checksumOf(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

async function applyOne(driver: MigrationDriver, migration: Migration): Promise<void> {
  try {
    await driver.apply(migration);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartRefused(`${driver.database} cannot be migrated (${migration.name}): ${reason}`, {
      cause: error,
    });
  }
}
