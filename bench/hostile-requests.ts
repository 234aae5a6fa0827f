import type { ChildProcess } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { systemClock, systemRandom } from '../src/clock.ts';
import { makeId } from '../src/core/ids.ts';
import type { Store } from '../src/store/port/store.ts';
import * as program from '../test/helpers/leat.ts';
import { freePort } from '../test/helpers/ports.ts';
import { createTenant, twoTenantsSettings } from '../test/helpers/tenants.ts';
import type { Bench, Figure } from './bench.ts';
import { endChild, message, startChild } from './child.ts';
import type { Statuses } from './hostile-client.ts';
import { endedWithBench, makeEvent, createTempStore, orderData, withStore } from './leat.ts';
import { type Holds, worse } from './loop-hold.ts';
import { profiledEnvironment } from './profile.ts';
import { median, quantile } from './rounds.ts';

const perSecond = 100;
const seconds = 5;
const holdMsMax = 50;
/** The p99 of the other tenant may double, or reach half of such a hold (docs/adr/0030). */
const p99MsMax = holdMsMax / 2;
/** The second tenant of a store. */
const hostileTenant = 2;
const KIB = 1024;

/** The default limits of a server, which the tests raise. */
const usualLimits = {
  LEAT_RATE_LIMIT_BURST: '100',
  LEAT_RATE_LIMIT_PER_SECOND: '50',
  LEAT_TENANT_RATE_BURST: '1000',
  LEAT_TENANT_RATE_PER_SECOND: '500',
  LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND: String(64 * KIB * KIB),
  LEAT_LOG_LEVEL: 'error',
};

/** How long hostile bodies and lists hold the event loop, and their effect on another tenant. */
export const hostileRequests: Bench = {
  name: 'hostile-requests',
  what: `longest hold of the event loop for each hostile body and list, and the p99 of another tenant that publishes ${perSecond} events a second at the same time, against alone`,
  run: async (progress, { rounds, cases }) => {
    const tempStore = await createTempStore();
    const loopFile = join(tempStore.folder, 'loop.json');
    const port = await freePort();
    const settings = { ...usualLimits, ...twoTenantsSettings(port) };
    const first = await program.startLeat(tempStore, settings);
    const { token } = await createTenant(first, tempStore.file);
    await endedWithBench(first).end();
    progress('filling the lists');
    await withStore(tempStore, fillLists);
    const leat = endedWithBench(
      await program.startLeat(
        tempStore,
        profiledEnvironment({
          ...settings,
          NODE_OPTIONS: `--import=${new URL('./loop-probe.ts', import.meta.url).pathname}`,
          BENCH_LOOP_FILE: loopFile,
        }),
      ),
    );
    const client = startChild('./hostile-client.ts');
    client.send({ host: { port, token, forwarded: 'two.test' } });
    const { names } = await message<{ names: readonly string[] }>(client);
    const innocent = { url: leat.url, token: leat.token };
    const probe = createProbe(leat.pid, loopFile);
    await publishDelays(innocent);

    const figures: Figure[] = [];
    let before = await measureAlone({ innocent, probe });
    for (const name of names.filter((each) => each.includes(cases ?? ''))) {
      const seen: Round[] = [];
      for (let round = 0; round < rounds; round += 1) {
        progress(`${name}, round ${round + 1} of ${rounds}`);
        const underLoad = await measure(name, { innocent, probe, client });
        // The requests of the case have ended before the server is measured alone again.
        await sleep(500);
        const after = await measureAlone({ innocent, probe });
        seen.push({ alone: [before, after], underLoad });
        before = after;
      }
      figures.push(...figuresOf(name, seen));
    }
    await endChild(client);
    await leat.end();
    await tempStore.remove();
    return figures;
  },
};

/** The measurements of five seconds. */
interface Seen {
  /** The p99 of the delays of the other tenant, in milliseconds. */
  readonly p99: number;
  readonly holds: Holds;
}

interface Round {
  /** Before and after, within the same minute, as other work on the machine affects both. */
  readonly alone: readonly [Seen, Seen];
  readonly underLoad: Seen & { readonly statuses: Statuses };
}

async function measure(
  name: string,
  {
    innocent,
    probe,
    client,
  }: {
    readonly innocent: Parameters<typeof publishDelays>[0];
    readonly probe: ReturnType<typeof createProbe>;
    readonly client: ChildProcess;
  },
): Promise<Round['underLoad']> {
  client.send({ start: name });
  const p99 = quantile(await publishDelays(innocent), 0.99);
  const reported = message<Statuses>(client);
  client.send({ stop: true });
  const statuses = await reported;
  return { p99, holds: await probe.longest(), statuses };
}

async function measureAlone({
  innocent,
  probe,
}: Pick<Parameters<typeof measure>[1], 'innocent' | 'probe'>): Promise<Seen> {
  await probe.longest();
  const p99 = quantile(await publishDelays(innocent), 0.99);
  return { p99, holds: await probe.longest() };
}

function figuresOf(name: string, rounds: readonly Round[]): Figure[] {
  const middle = (of: (round: Round) => number): string => median(rounds.map(of)).toFixed(1);
  const p99Alone = ({ alone: [before, after] }: Round): number => Math.max(before.p99, after.p99);
  const holdAloneMs = median(
    rounds.map(({ alone: [before, after] }) => worse(before.holds, after.holds).longestMs),
  );
  const statuses = JSON.stringify(rounds.at(-1)?.underLoad.statuses).replaceAll('"', '');
  return [
    {
      name: `${name}: hold`,
      detail: `at most ${middle(({ underLoad }) => underLoad.holds.computedMs)} ms of computation, against ${holdAloneMs.toFixed(1)} ms alone; responses ${statuses}`,
      values: rounds.map(({ underLoad }) => underLoad.holds.longestMs),
      unit: 'ms',
      // A disk or a machine that stalls for longer does so without hostile requests too.
      must: { kind: 'most', value: Math.ceil(Math.max(holdMsMax, holdAloneMs)) },
      goal: undefined,
    },
    {
      name: `${name}: p99`,
      detail: `${middle((round) => round.underLoad.p99 / p99Alone(round))} times the ${middle(p99Alone)} ms alone`,
      values: rounds.map(({ underLoad }) => underLoad.p99),
      unit: 'ms',
      must: {
        kind: 'most',
        value: Math.ceil(Math.max(p99MsMax, 2 * median(rounds.map(p99Alone)))),
      },
      goal: undefined,
    },
  ];
}

/** 61 users of nearly 1 MiB, of texts and of many parts, and 100 streams as long as they can be. */
async function fillLists(store: Store): Promise<void> {
  const now = systemClock.now();
  const parts = { x: Array.from({ length: 9_900 }, (_, n) => ({ [n]: n })) };
  const text = { x: 'x'.repeat(1000 * KIB) };
  const texts = { x: Array(250_000).fill('a') };
  const metadata = [
    ...Array.from({ length: 30 }, () => [text, { ...parts, y: text.x.slice(0, 600 * KIB) }]).flat(),
    texts,
  ];
  for (const [index, user_metadata] of metadata.entries()) {
    const user = {
      tenant: hostileTenant,
      id: `leat|${index}`,
      connection: 'Username-Password-Authentication',
      email: `user-${index}@example.com`,
      username: undefined,
      passwordHash: '',
      profileJson: JSON.stringify({ user_metadata }),
      createdAt: now,
      updatedAt: now,
    };
    await store.users.create(user, makeEvent());
  }
  for (let index = 0; index < 100; index += 1) {
    await store.streams.create(
      {
        tenant: hostileTenant,
        id: makeId('est_', now, systemRandom),
        name: `stream-${index}`,
        status: 'disabled',
        types: Array.from({ length: 1000 }, (_, n) => `a.${'b'.repeat(110)}${n}`),
        destination: {
          type: 'webhook',
          endpoint: 'http://127.0.0.1:9/',
          authorization: { method: 'bearer', token: 'token-of-the-bench' },
        },
        signingSecrets: [],
        createdAt: now,
        updatedAt: now,
      },
      { streamsMax: 1000 },
    );
  }
}

/** Delays of single publishes at a steady rate, in milliseconds; a refusal counts as ten seconds. */
async function publishDelays(to: {
  readonly url: string;
  readonly token: string;
}): Promise<number[]> {
  const headers = { authorization: `Bearer ${to.token}`, 'content-type': 'application/json' };
  const pool = new Pool(to.url, { connections: 16, pipelining: 1 });
  const body = JSON.stringify({ type: 'order.paid', data: orderData(1) });
  const publish = async (): Promise<number> => {
    const sentMs = performance.now();
    const response = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    await response.body.dump();
    return response.statusCode === 202 ? performance.now() - sentMs : 10_000;
  };
  const sending: Promise<number>[] = [];
  const beganMs = performance.now();
  while (sending.length < perSecond * seconds) {
    const due = ((performance.now() - beganMs) / 1000) * perSecond;
    while (sending.length < Math.min(due, perSecond * seconds)) sending.push(publish());
    await sleep(2);
  }
  const delays = await Promise.all(sending);
  await pool.close();
  return delays;
}

/** Reads the longest hold of the event loop of a server with `loop-probe.ts` since the last reading. */
export function createProbe(pid: number, file: string): { longest(): Promise<Holds> } {
  return {
    longest: async () => {
      await rm(file, { force: true });
      process.kill(pid, 'SIGUSR2');
      for (;;) {
        const text = await readFile(file, 'utf8').catch(() => undefined);
        if (text !== undefined) return JSON.parse(text) as Holds;
        await sleep(5);
      }
    },
  };
}
