import { DatabaseSync } from 'node:sqlite';
import type pg from 'pg';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { endChild, message, startChild } from './child.ts';
import { createTempStore, type TempStore, withStore } from './leat.ts';
import { withClient, withPostgres } from './postgres.ts';
import { alternate, median, ratios } from './rounds.ts';

const thisCheckout = new URL('..', import.meta.url).pathname;
const triggers = {
  sqlite: [
    'failure_added',
    'failure_removed',
    'failure_opened',
    'failure_closed',
    'redelivery_delivered',
    'redelivery_failed',
  ],
  postgres: ['failures_added', 'failures_removed', 'failures_changed'],
};

/**
 * What failures cost the settlement, by processor time, that of the database's server included: what the
 * triggers that count them do, or all changes since another version.
 */
export const failing: Bench = {
  name: 'failing',
  what: 'settlement with the triggers that count failures, against the same store without them, or against the checkout of another version (--checkout)',
  run: async (progress, options) => [
    ...(await figuresOf(progress, options, {
      engine: 'SQLite',
      create: createTempStore,
      serverPid: 0,
      drop: dropOnSqlite,
    })),
    ...(await withPostgres(({ createTempStore: create, pid }) =>
      figuresOf(progress, options, {
        engine: 'PostgreSQL',
        create,
        serverPid: pid,
        drop: ({ url }) => withClient(url, dropOnPostgres),
      }),
    )),
  ],
};

function dropOnSqlite({ file }: TempStore): Promise<void> {
  const db = new DatabaseSync(file);
  for (const name of triggers.sqlite) db.exec(`drop trigger ${name}`);
  db.close();
  return Promise.resolve();
}

async function dropOnPostgres(client: pg.Client): Promise<void> {
  for (const name of triggers.postgres) await client.query(`drop trigger ${name} on deliveries`);
}

interface EngineSetup<Made> {
  readonly engine: string;
  readonly create: () => Promise<Made>;
  /** 0 for one within the process. */
  readonly serverPid: number;
  readonly drop: (tempStore: Made) => Promise<void>;
}

const shares = [
  ['every delivery fails', 1],
  ['every second delivery fails', 0.5],
  ['one delivery of a hundred fails', 0.01],
] as const;

async function figuresOf<Made extends TempStore>(
  progress: (text: string) => void,
  { rounds, checkout: other }: RunOptions,
  { engine, create, serverPid, drop }: EngineSetup<Made>,
): Promise<Figure[]> {
  const settle = async (checkout: string, share: number, isCounted = true): Promise<number> => {
    const tempStore = await create();
    try {
      if (!isCounted) {
        await withStore(tempStore, () => Promise.resolve());
        await drop(tempStore);
      }
      const args = [checkout, JSON.stringify(tempStore), String(share), String(serverPid)];
      const child = startChild('settlement.ts', args);
      try {
        return await message<number>(child);
      } finally {
        await endChild(child);
      }
    } finally {
      await tempStore.remove();
    }
  };
  const figures: Figure[] = [];
  for (const [what, share] of shares) {
    const measured = await alternate(
      rounds,
      () => settle(thisCheckout, share),
      () => (other === undefined ? settle(thisCheckout, share, false) : settle(other, share)),
      (round) => progress(`${engine}, ${what}: ${round}`),
    );
    const [ours, theirs] = [median(measured.ours), median(measured.theirs)].map(Math.round);
    figures.push({
      name: `${engine}, ${what}`,
      detail: `${ours} outcomes a second of processor time against ${theirs}`,
      values: ratios(measured),
      unit: 'ratio',
      better: 'higher',
      must: other === undefined ? undefined : { kind: 'least', value: 0.95 },
      goal: other === undefined ? 0.95 : 1,
    });
  }
  return figures;
}
