import { type Bed, type Night, nightOf } from './night.ts';
import { openPostgres, openSqlite, type PostgresStore } from './stores.ts';

const locked =
  (table: string) =>
  ({ store }: Bed<PostgresStore>): Promise<void> =>
    store.hold(5000, 'begin', `lock table ${table} in access exclusive mode`);

/** All nights, and the mistakes with which some of them have to fail. */
export const nights: readonly Night[] = [
  nightOf({
    name: 'SQLite: kill -9',
    open: openSqlite,
    faults: [({ last }) => last.kill()],
    rounds: 10,
    longestMs: 30_000,
  }),
  nightOf({
    name: 'PostgreSQL: rolling restarts of two nodes',
    open: openPostgres,
    nodes: 2,
    faults: [({ nodes: [first] }) => first.restart(), ({ last }) => last.restart()],
    rounds: 4,
    longestMs: 30_000,
  }),
  nightOf({
    name: 'PostgreSQL: kills of the server',
    open: openPostgres,
    nodes: 2,
    faults: [
      async ({ store: { server } }) => {
        await server.kill();
        await server.start();
      },
      async ({ store: { server } }) => {
        await server.stop('immediate');
        await server.start();
      },
    ],
    rounds: 3,
    longestMs: 60_000,
  }),
  nightOf({
    name: 'PostgreSQL: lost connections of nodes that hear of events from another one',
    open: openPostgres,
    nodes: 3,
    publishedTo: 1,
    faults: [async ({ store }) => store.proxy(1).cut(), async ({ store }) => store.proxy(2).cut()],
    rounds: 3,
    longestMs: 30_000,
    // Far above what a node with hints needs on a busy machine, below what the poll for lost ones does.
    medianMs: 700,
  }),
  nightOf({
    name: 'PostgreSQL: locks',
    open: openPostgres,
    nodes: 2,
    faults: ['events', 'tenants', 'runs', 'streams', 'deliveries', 'nodes', 'store'].map(locked),
    longestMs: 60_000,
  }),
];

/** A mistake in the program, and what the night says then. */
export interface Plant {
  readonly night: string;
  readonly mutant: string;
  readonly shows: string;
}

const isLost = 'acknowledged events are lost';
export const plants: readonly Plant[] = [
  { night: 'SQLite: kill -9', mutant: 'a cursor of what was taken', shows: isLost },
  {
    night: 'PostgreSQL: kills of the server',
    mutant: 'an acknowledgement before the commit',
    shows: isLost,
  },
  {
    night: 'PostgreSQL: lost connections of nodes that hear of events from another one',
    mutant: 'PostgreSQL: appended events without a notification of other nodes',
    shows: 'median of the delays',
  },
];

export function nightNamed(name: string): Night {
  const night = nights.find((one) => one.name === name);
  if (night === undefined) throw new Error(`No night is called "${name}".`);
  return night;
}
