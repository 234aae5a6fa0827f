import type pg from 'pg';
import { waitFor } from '../test/helpers/leat.ts';
import type { Figure } from './bench.ts';
import { median } from './rounds.ts';

/** Writes of a database per event that was delivered at the same time. */
export interface Written {
  readonly walBytes: number;
  /** Full pages among them, written after a checkpoint. */
  readonly fullPages: number;
  readonly commits: number;
  /** By table, including its partitions. */
  readonly tables: ReadonlyMap<string, Rows>;
}

interface Rows {
  readonly inserted: number;
  readonly updated: number;
  /** Updates without a new index entry (HOT). */
  readonly hot: number;
  readonly deleted: number;
}

/** Counts the writes of one measurement. */
export interface Counting {
  /** Ends the measurement. `done` is SQL that is true once everything is recorded. */
  stop(done: string): Promise<void>;
  /** Returns the counts; call it after the clients have ended, as sessions report their statistics then at the latest. */
  written(events: number): Promise<Written>;
}

/**
 * Starts to count, after a checkpoint and with fresh planner statistics, so that no side pays for how
 * its waiting events were created.
 */
export async function countWrites(client: pg.Client): Promise<Counting> {
  await client.query('analyze');
  await client.query('checkpoint');
  const [rowsBefore, before] = [await rowsOf(client), await countersOf(client)];
  const startedAt = await walPosition(client);
  let endedAt = startedAt;
  return {
    stop: async (done) => {
      await until(client, done);
      endedAt = await walPosition(client);
    },
    written: async (events) => {
      await until(client, noOtherSession);
      const [rows, after] = [await rowsOf(client), await countersOf(client)];
      return {
        walBytes: (endedAt - startedAt) / events,
        fullPages: (after.fullPages - before.fullPages) / events,
        commits: (after.commits - before.commits) / events,
        tables: new Map(
          [...rows].map(([name, now]) => [name, perEvent(rowsBefore.get(name), now, events)]),
        ),
      };
    },
  };
}

/** Returns WAL, rows and commits of the rounds, which have no limit. */
export function writtenFigures(name: string, rounds: readonly Written[]): Figure[] {
  const rows = (written: Written): number => {
    const tables = [...written.tables.values()];
    return tables.reduce((sum, table) => sum + table.inserted + table.updated + table.deleted, 0);
  };
  const last = rounds.at(-1);
  const pages = median(rounds.map(({ fullPages }) => fullPages));
  const commits = median(rounds.map((written) => written.commits));
  const plain = { must: undefined, goal: undefined };
  return [
    {
      name: `${name} WAL`,
      detail: `${pages.toFixed(3)} full pages, ${commits.toFixed(3)} commits`,
      values: rounds.map(({ walBytes }) => walBytes),
      unit: 'B per event',
      ...plain,
    },
    {
      name: `${name} rows`,
      detail: last === undefined ? '' : tablesText(last),
      values: rounds.map(rows),
      unit: 'written per event',
      ...plain,
    },
  ];
}

/** Returns the tables with writes for at least one event in a hundred. */
function tablesText({ tables }: Written): string {
  const texts = [...tables].flatMap(([name, { inserted, updated, hot, deleted }]) => {
    const parts = [
      [inserted, `${inserted.toFixed(2)} inserted`],
      [updated, `${updated.toFixed(2)} updated (${hot.toFixed(2)} hot)`],
      [deleted, `${deleted.toFixed(2)} deleted`],
    ] as const;
    const shown = parts.filter(([count]) => count >= 0.01).map(([, text]) => text);
    return shown.length === 0 ? [] : [`${name} ${shown.join(' ')}`];
  });
  return texts.join(', ');
}

function perEvent(before: Rows | undefined, after: Rows, events: number): Rows {
  const of = (kind: keyof Rows): number => (after[kind] - (before?.[kind] ?? 0)) / events;
  return {
    inserted: of('inserted'),
    updated: of('updated'),
    hot: of('hot'),
    deleted: of('deleted'),
  };
}

async function rowsOf(client: pg.Client): Promise<Map<string, Rows>> {
  const { rows } = await client.query<Rows & { name: string }>(`
    select coalesce(parent.relname, s.relname) as name, sum(n_tup_ins)::float8 as inserted,
      sum(n_tup_upd)::float8 as updated, sum(n_tup_hot_upd)::float8 as hot,
      sum(n_tup_del)::float8 as deleted
    from pg_stat_user_tables s
    left join pg_inherits i on i.inhrelid = s.relid
    left join pg_class parent on parent.oid = i.inhparent
    group by 1 order by 1`);
  return new Map(rows.map(({ name, ...counts }) => [name, counts]));
}

async function countersOf(client: pg.Client): Promise<{ fullPages: number; commits: number }> {
  const { rows } = await client.query<{ fullPages: number; commits: number }>(`
    select wal_fpi::float8 as "fullPages", xact_commit::float8 as commits
    from pg_stat_wal, pg_stat_database where datname = current_database()`);
  return rows[0] ?? { fullPages: NaN, commits: NaN };
}

async function walPosition(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ at: number }>(
    `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as at`,
  );
  return rows[0]?.at ?? NaN;
}

const noOtherSession = `not exists (
  select 1 from pg_stat_activity where datname = current_database()
    and backend_type = 'client backend' and pid <> pg_backend_pid())`;

async function until(client: pg.Client, condition: string): Promise<void> {
  await waitFor(condition, async () => {
    const { rows } = await client.query<{ holds: boolean }>(`select ${condition} as holds`);
    return rows[0]?.holds;
  });
}
