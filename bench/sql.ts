/** Fills stores by statements that are the same for both engines but for a few words. */
import { DatabaseSync } from 'node:sqlite';
import { makeDays } from '../src/store/engine/postgres/partitions.ts';
import type { Progress } from './bench.ts';
import type { TempStore } from './leat.ts';
import { withClient } from './postgres.ts';

/** The words in which the engines differ. */
export interface Words {
  /** Returns one or the other text. */
  either(postgres: string, sqlite?: string): string;
  /** A table of the numbers of a range, as `n.i`. */
  series(from: number, to: number): string;
  /** An id of 22 digits. */
  id(prefix: string, number: string): string;
}

export function wordsOf({ location }: Pick<TempStore, 'location'>): Words {
  const either = (postgres: string, sqlite = ''): string =>
    location.engine === 'postgres' ? postgres : sqlite;
  return {
    either,
    series: (from, to) =>
      either(
        `generate_series(${from}::bigint, ${to}::bigint) as n(i)`,
        `(with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to}) select i from n) as n`,
      ),
    id: (prefix, number) =>
      either(
        `'${prefix}' || lpad((${number})::text, 22, '0')`,
        `printf('${prefix}%022d', ${number})`,
      ),
  };
}

/** Creates the tables of days, which PostgreSQL alone has. */
export async function createDays(
  { location }: Pick<TempStore, 'location'>,
  from: number,
  to: number,
): Promise<void> {
  if (location.engine !== 'postgres') return;
  const days = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  await withClient(location.url, async (client) => {
    const script = async (sql: string): Promise<void> => void (await client.query(sql));
    await makeDays({ script }, 'events', days);
    await makeDays({ script }, 'attempts', days);
  });
}

/** Runs statements while no server has the store open; on PostgreSQL each by itself. */
export async function execute(
  { location }: Pick<TempStore, 'location'>,
  statements: readonly string[],
  progress: Progress = () => {},
): Promise<void> {
  const each = async (run: (statement: string) => unknown): Promise<void> => {
    for (const [index, statement] of statements.entries()) {
      progress(`filling: statement ${index + 1} of ${statements.length}`);
      await run(statement);
    }
  };
  if (location.engine === 'postgres') {
    await withClient(location.url, async (client) => {
      await each((statement) => client.query(statement));
      // Work that remains from filling must not be measured.
      await client.query('select leat_fill_log_days()');
      await client.query('vacuum analyze');
      await client.query('checkpoint');
    });
    return;
  }
  const db = new DatabaseSync(location.path);
  db.exec('pragma synchronous = off');
  await each((statement) => db.exec(statement));
  db.close();
}
