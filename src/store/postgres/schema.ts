import { keyProof, provesKey } from '../key-proof.ts';
import { migrate, readMigrations, type AppliedMigration } from '../migrate.ts';
import type { Seal } from '../seal.ts';
import type { Database } from './database.ts';
import { makeDaysAhead, schemaLock } from './days.ts';
import { refusalOf } from './refusal.ts';

const folder = new URL('migrations/', import.meta.url);

/**
 * Makes a database ready for this program: its schema is brought up to date, and the secret key
 * proves that it fits the secrets stored there. Any number of nodes may start at once: one migrates
 * and the others wait for it. Throws `StartRefused`.
 *
 * @param name what messages call the database; no password
 */
export async function prepareSchema(db: Database, name: string, seal: Seal): Promise<void> {
  try {
    await migrate(
      {
        database: `LEAT_STORE: ${name}`,
        applied: () => appliedTo(db),
        apply: (migration) => db.script(applyScript(migration)),
      },
      readMigrations(folder),
    );
    await makeDaysAhead(db);
    await proveKey(db, name, seal);
  } catch (error) {
    throw refusalOf(name, error);
  }
}

async function appliedTo(db: Database): Promise<AppliedMigration[]> {
  await db.script(`
    begin;
    select pg_advisory_xact_lock(${schemaLock});
    create table if not exists leat_migrations (
      name text collate "C" primary key,
      checksum text not null
    );
    commit`);
  return db.all`select name, checksum from leat_migrations order by name`;
}

/**
 * One transaction under the lock. Another node may have applied the migration while this one waited:
 * then there is nothing left to do.
 */
function applyScript({ name, checksum, sql }: AppliedMigration & { readonly sql: string }): string {
  const tag = '$leat_migration$';
  return `
    begin;
    select pg_advisory_xact_lock(${schemaLock});
    do $leat$ begin
      if not exists (select 1 from leat_migrations where name = '${name}') then
        execute ${tag}${sql}${tag};
        insert into leat_migrations (name, checksum) values ('${name}', '${checksum}');
      end if;
    end $leat$;
    commit`;
}

async function proveKey(db: Database, name: string, seal: Seal): Promise<void> {
  await db.run`
    insert into key_proof (id, sealed) values (1, ${seal.seal(keyProof)})
    on conflict (id) do nothing`;
  const stored = await db.get<{ sealed: Uint8Array }>`select sealed from key_proof`;
  provesKey(name, seal, stored?.sealed);
}
