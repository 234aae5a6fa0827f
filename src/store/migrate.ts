import { createHash } from 'node:crypto';
import { type AssetFolder, assetFolder } from '../core/asset.ts';
import { StartRefused } from '../core/errors.ts';

/**
 * Migrates a database to the schema of this program: adopts one that the migrations before the
 * baseline made, and applies the missing migrations in order. There is no way back. A database that
 * a newer version has migrated is used as it is if that version allows this program to run on it,
 * and is not touched otherwise; nor is one that is too old, or whose applied migrations differ from
 * those of this program.
 *
 * Throws `StartRefused` in these cases, and when a migration fails; migrations applied before that
 * one stay.
 *
 * @returns the names of the migrations applied now
 */
export async function migrate(
  driver: MigrationDriver,
  migrations: readonly Migration[],
  former?: FormerSchema,
): Promise<string[]> {
  if (former !== undefined) await adoptFormer(driver, migrations, former);
  const applied = await driver.applied();
  const refusal = schemaRefusal(applied, migrations, await driver.state());
  if (refusal !== undefined) throw new StartRefused(`${driver.database} ${refusal}`);
  const missing = migrations.slice(applied.length);
  for (const migration of missing) {
    const state = stateAfter(migrations, migration);
    await attempt(driver, migration, () => driver.apply(migration, state));
  }
  return missing.map((migration) => migration.name);
}

/** The schema that the migrations before the baseline made: that of the baseline. */
export interface FormerSchema {
  /** The last of these migrations. */
  readonly last: AppliedMigration;
  /** Throws `StartRefused` when this program must not use the database that has the schema. */
  check(): void | Promise<void>;
}

/** Returns whether the former schema is complete. */
export function isComplete(
  { last }: Pick<FormerSchema, 'last'>,
  applied: readonly AppliedMigration[],
): boolean {
  const newest = applied.at(-1);
  return newest?.name === last.name && newest.checksum === last.checksum;
}

async function adoptFormer(
  driver: MigrationDriver,
  migrations: readonly Migration[],
  former: FormerSchema,
): Promise<void> {
  const [baseline] = migrations;
  if (baseline === undefined || !isComplete(former, await driver.applied())) return;
  await former.check();
  const state = stateAfter(migrations, baseline);
  await attempt(driver, baseline, () => driver.adopt(baseline, former.last, state));
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
  const [first] = applied;
  if (first !== undefined && numberOf(first.name) < (migrations[0]?.number ?? 0)) return tooOld;
  for (const [index, { name, checksum }] of applied.entries()) {
    const own = migrations[index];
    if (own === undefined) {
      // Without a row for the last migration nothing is known about older programs.
      const isKnown = state?.version === numberOf(applied.at(-1)?.name ?? '');
      if (isKnown && mayRun(state, versionOf(migrations))) return undefined;
      return `was changed by a newer version of Leat (${name}): run that version, or restore a backup from before it`;
    }
    if (own.name !== name || own.checksum !== checksum) {
      return `was made by another edition of Leat (its ${name} is not this one's ${own.name}): run the edition that made it`;
    }
  }
  return undefined;
}

/** The commit is the last one that has the migrations before the baseline. */
const tooOld =
  'was last used by an older version of Leat: start it once with commit a060e904, which migrates it ' +
  '(git checkout a060e904 && npm ci && npm start), stop that and start this version';

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

/** Returns the number of the last of a program's migrations. */
export function versionOf(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.number ?? 0;
}

/**
 * Returns the state after a migration: none lowers the requirement of an earlier one.
 */
function stateAfter(migrations: readonly Migration[], { number }: Migration): SchemaState {
  const oldest = migrations
    .filter((migration) => migration.number <= number)
    .map(({ oldestThatMayRun }) => oldestThatMayRun);
  return { version: number, oldestThatMayRun: Math.max(...oldest) };
}

/** One step of the schema. */
export interface Migration {
  /** `0050_mark`: the number and the subject. */
  readonly name: string;
  /** The baseline, which is the first, has that of the last migration before it. */
  readonly number: number;
  readonly sql: string;
  /** SHA-256 of `sql` in hexadecimal. */
  readonly checksum: string;
  /**
   * Programs that have the migration of this number may run on the result. Read from the first line
   * of the file, `-- oldest that may run: 0050`; without that line it is the migration's own
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
  /**
   * Records the baseline in place of the migrations before it, and the state after it, in one
   * transaction. Does nothing where the last of these is not recorded any more.
   */
  adopt(baseline: Migration, last: AppliedMigration, state: SchemaState): void | Promise<void>;
}

/** Returns the migrations of an engine: those of both engines, and its own. */
export function migrationsOf(engine: 'postgres' | 'sqlite'): Migration[] {
  return readMigrations([
    assetFolder('store/migrations/'),
    assetFolder(`store/engine/${engine}/migrations/`),
  ]);
}

/**
 * Reads the migrations of some folders, `NNNN_name.sql`, in the order of their numbers. A number is missing
 * where only the other engine has a migration. Throws when there is another file, or when a number is used
 * twice: that is a broken installation.
 */
export function readMigrations(folders: readonly AssetFolder[]): Migration[] {
  const files = folders.flatMap((folder) => folder.names().map((file) => ({ folder, file })));
  const inOrder = files.toSorted((one, other) => (one.file < other.file ? -1 : 1));
  return inOrder.map(({ folder, file }, index) => {
    const number = numberOf(file);
    if (!/^\d{4}_\w+\.sql$/.test(file) || number === numberOf(inOrder[index - 1]?.file ?? '')) {
      throw new StartRefused(
        `${file} in ${folder.name} is not NNNN_<name>.sql with a number of its own`,
      );
    }
    const sql = folder.read(file).toString('utf8');
    const declared = /^-- oldest that may run: ([0-9]{4})\n/.exec(sql)?.[1];
    const oldestThatMayRun = declared === undefined ? number : Number(declared);
    if (oldestThatMayRun > number) {
      throw new StartRefused(`${file} in ${folder.name} names no earlier migration as the oldest`);
    }
    return {
      name: file.slice(0, -'.sql'.length),
      number,
      sql,
      checksum: checksumOf(sql),
      oldestThatMayRun,
    };
  });
}

/** Returns the number at the beginning of a name; `NaN` without one. */
function numberOf(name: string): number {
  return Number.parseInt(name.slice(0, 4), 10);
}

function checksumOf(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

async function attempt(
  driver: MigrationDriver,
  migration: Migration,
  work: () => void | Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartRefused(`${driver.database} cannot be migrated (${migration.name}): ${reason}`, {
      cause: error,
    });
  }
}
