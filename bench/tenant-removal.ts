import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { systemClock } from '../src/clock.ts';
import { dayMs } from '../src/core/units.ts';
import { removeTenant } from '../src/upkeep/tenant-removal.ts';
import { throughPort } from '../test/helpers/postgres.ts';
import { startTcpProxy } from '../test/helpers/tcp-proxy.ts';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { type Receiver, startReceiver } from './child.ts';
import { addStream, endNodes, fill, orderData, startNodes, withStore } from './leat.ts';
import { type Database, type PostgresTempStore, withClient, withPostgres } from './postgres.ts';
import { quantile } from './rounds.ts';

const eventsDefault = 500_000;
const perSecond = 200;
const quietSeconds = 15;
/** A node that has just started compiles its code. */
const warmUpSeconds = 5;
/** From this process to the server, and as much back. */
const wayMs = 1;
/** Waiting events that another tenant's stream drains meanwhile. */
const drained = 200_000;

/** How fast a tenant goes, and what others notice. */
export const tenantRemoval: Bench = {
  name: 'tenant-removal',
  what: `deletes a tenant with ${eventsDefault} events and as many attempts from PostgreSQL: alone, and ${2 * wayMs} ms away from the server beside a drain and ${perSecond} publishes a second, whose p99 is compared with that before`,
  run: async (progress, options) => {
    const receiver = await startReceiver('--seq');
    try {
      return await withPostgres(async (database) => {
        const rounds: Measured[] = [];
        for (let round = 0; round < options.rounds; round += 1) {
          progress(`round ${round + 1} of ${options.rounds}`);
          rounds.push(await measure(database, options, { receiver, progress }));
        }
        return figuresOf(rounds);
      });
    } finally {
      await receiver.end();
    }
  },
};

interface Measured {
  /** Rows a second. */
  readonly alone: number;
  readonly beside: number;
  /** p99 of publishing before the removal and during it, in milliseconds. */
  readonly before: number;
  readonly during: number;
}

function figuresOf(rounds: readonly Measured[]): Figure[] {
  const rate = (
    name: string,
    detail: string,
    values: readonly number[],
    least: number,
  ): Figure => ({
    name,
    detail,
    values,
    unit: ' rows/s',
    must: { kind: 'least', value: least },
    goal: undefined,
  });
  const text = rounds.map((one) => `${one.during.toFixed(1)} ms against ${one.before.toFixed(1)}`);
  return [
    rate(
      'alone',
      'of a tenant on a server without other work',
      rounds.map((one) => one.alone),
      20_000,
    ),
    rate(
      'beside a drain',
      `${2 * wayMs} ms away from the server`,
      rounds.map((one) => one.beside),
      5000,
    ),
    {
      name: 'publish p99',
      detail: text.join(', '),
      values: rounds.map((one) => one.during / one.before),
      unit: '×',
      must: { kind: 'most', value: 1.5 },
      goal: 1,
    },
  ];
}

async function measure(
  { createTempStore }: Database,
  { events = eventsDefault }: RunOptions,
  { receiver, progress }: { receiver: Receiver; progress: (text: string) => void },
): Promise<Measured> {
  const tempStore = await createTempStore();
  await withStore(tempStore, async (store) => {
    await addStream(store, receiver.port, { name: 'drain' });
    await fill(store, drained, progress);
  });
  const alone = await removal(
    tempStore,
    tempStore.url,
    await leavingTenant(tempStore, 'alone', events),
  );
  const beside = await leavingTenant(tempStore, 'beside', events);
  const proxy = await startTcpProxy(Number(new URL(tempStore.url).port));
  proxy.delayMs = wayMs;
  const nodes = await startNodes(tempStore, 1);
  const load = startLoad(nodes[0]);
  await sleep(warmUpSeconds * 1000);
  load.take();
  await sleep(quietSeconds * 1000);
  const before = load.take();
  const rate = await removal(tempStore, throughPort(tempStore.url, proxy.port), beside);
  const during = load.take();
  await load.end();
  await endNodes(nodes);
  await proxy.close();
  await tempStore.remove();
  return { alone, beside: rate, before: quantile(before, 0.99), during: quantile(during, 0.99) };
}

/** Creates a tenant that is about to be removed; nodes do not resume it while this process works. */
async function leavingTenant(
  tempStore: PostgresTempStore,
  name: string,
  events: number,
): Promise<number> {
  const id = await withStore(tempStore, async (store) => {
    const made = await store.tenants.create(
      { name, domain: `${name}.localhost` },
      systemClock.now(),
    );
    if ('refused' in made) throw new Error(made.refused);
    return made.created.id;
  });
  const day = Math.floor(systemClock.now() / dayMs);
  await withClient(tempStore.url, async (client) => {
    await client.query(
      `insert into events (tenant, "offset", id, type, time, published_at, body)
       select $1, n, 'evt_' || n, 'order.paid', $2, $2, repeat('x', 400)
       from generate_series(1, $3::int) n`,
      [id, day * dayMs, events],
    );
    await client.query(
      `insert into attempts (day, tenant, stream_key, event_key, at, duration_ms, outcome, number)
       select $2, $1, 1000000 + n % 10, n, $3, 5, 1, 1 from generate_series(1, $4::int) n`,
      [id, day, day * dayMs, events],
    );
    await client.query('vacuum analyze');
    await client.query('checkpoint');
  });
  return id;
}

/** Returns the rows a second. */
async function removal(tempStore: PostgresTempStore, url: string, id: number): Promise<number> {
  const from = { ...tempStore, location: { engine: 'postgres', url } as const };
  return withStore(from, async (store) => {
    await store.tenants.leave(id);
    const startedMs = performance.now();
    let lastMs = startedMs;
    let rows = 0;
    // At the end it waits until every node knows that the tenant is gone.
    const progress = (removed: number): void => {
      if (removed > rows) lastMs = performance.now();
      rows = removed;
    };
    await removeTenant({ store, clock: systemClock }, id, progress, new AbortController().signal);
    return (rows / (lastMs - startedMs)) * 1000;
  });
}

interface Load {
  /** Returns the milliseconds that each publish took since the last call. */
  take(): number[];
  end(): Promise<void>;
}

function startLoad(node: { readonly url: string; readonly token: string } | undefined): Load {
  if (node === undefined) throw new Error('No node was started.');
  const pool = new Pool(node.url, { connections: 32, pipelining: 1 });
  const headers = { authorization: `Bearer ${node.token}`, 'content-type': 'application/json' };
  const sending = new Set<Promise<void>>();
  let took: number[] = [];
  let seq = 1_000_000;
  const publish = async (): Promise<void> => {
    const startedMs = performance.now();
    const body = JSON.stringify({ type: 'order.paid', data: orderData((seq += 1)) });
    const response = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    if (response.statusCode !== 202) throw new Error(await response.body.text());
    await response.body.dump();
    took.push(performance.now() - startedMs);
  };
  const timer = setInterval(() => {
    const sent = publish().finally(() => sending.delete(sent));
    sending.add(sent);
  }, 1000 / perSecond);
  return {
    take: () => {
      const all = took;
      took = [];
      return all;
    },
    end: async () => {
      clearInterval(timer);
      await Promise.all(sending);
      await pool.close();
    },
  };
}
