import type pg from 'pg';
import { waitFor } from '../test/helpers/leat.ts';
import type { Figure } from './bench.ts';
import { figure } from './report.ts';
import { median } from './rounds.ts';

/** Counters of a server and a database. */
interface Counters {
  readonly walBytes: number;
  /** Full pages among them, written after a checkpoint. */
  readonly fullPages: number;
  readonly commits: number;
  /** Inserted, updated and deleted, in all tables of the program. */
  readonly rows: number;
}

/** Writes of a database per event that was delivered at the same time. */
export type Written = Counters;

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
  const before = await countersOf(client);
  let { walBytes } = before;
  return {
    stop: async (done) => {
      await until(client, done);
      ({ walBytes } = await countersOf(client));
    },
    written: async (events) => {
      await until(client, noOtherSession);
      const after = { ...(await countersOf(client)), walBytes };
      const of = (name: keyof Counters): number => (after[name] - before[name]) / events;
      return {
        walBytes: of('walBytes'),
        fullPages: of('fullPages'),
        commits: of('commits'),
        rows: of('rows'),
      };
    },
  };
}

/** Returns WAL, rows and commits of the rounds, which have no limit. */
export function writtenFigures(name: string, rounds: readonly Written[]): Figure[] {
  const of = (what: keyof Written): number[] => rounds.map((written) => written[what]);
  const detail = `${median(of('fullPages')).toFixed(3)} full pages, ${median(of('commits')).toFixed(3)} commits`;
  return [
    figure(`${name} WAL`, 'B per event', of('walBytes'), { detail }),
    figure(`${name} rows`, 'written per event', of('rows'), {}),
  ];
}

async function countersOf(client: pg.Client): Promise<Counters> {
  const { rows } = await client.query<Counters>(`
    select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as "walBytes",
      wal_fpi::float8 as "fullPages", xact_commit::float8 as commits,
      (select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_user_tables)::float8 as rows
    from pg_stat_wal, pg_stat_database where datname = current_database()`);
  const [counters] = rows;
  if (counters === undefined) throw new Error('The database has no statistics.');
  return counters;
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
