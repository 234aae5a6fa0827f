import type { ChildProcess } from 'node:child_process';
import { systemClock } from '../src/clock.ts';
import type { Store } from '../src/store/port/store.ts';
import { freePort } from '../test/helpers/ports.ts';
import { createTenant, twoTenantsSettings } from '../test/helpers/tenants.ts';
import type { Bench, Figure } from './bench.ts';
import { endChild, message, startChild } from './child.ts';
import { hostileCases } from './hostile-cases.ts';
import type { Ask, Statuses } from './hostile-client.ts';
import { createProbe, holdFigure, holdMsMax, type HoldProbe, type Holds } from './holds.ts';
import { addStreams, makeEvent, type Running, sqlite, startLeat, withStore } from './leat.ts';
import { wait } from './proc.ts';
import { figure } from './report.ts';
import { inTurn, median, quantile } from './rounds.ts';
import { publishDelays } from './steady.ts';

const load = { perSecond: 100, seconds: 5 };
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
  LEAT_PUBLISH_LIMIT_PER_SECOND: '100000',
  LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND: String(64 * KIB * KIB),
};

/** How long hostile bodies and lists hold the event loop, and their effect on another tenant. */
export const hostileRequests: Bench = {
  name: 'hostile-requests',
  what: `longest hold of the event loop for each hostile body and list, and the p99 of another tenant that publishes ${load.perSecond} events a second at the same time, against alone`,
  run: async (progress, { rounds, cases }) => {
    const tempStore = await sqlite.createTempStore();
    const probe = createProbe(tempStore.folder);
    const settings = { ...usualLimits, ...twoTenantsSettings(await freePort()) };
    const first = await startLeat(tempStore, settings);
    const { headers } = await createTenant(first, tempStore.file);
    await first.end();
    progress('filling the lists');
    await withStore(tempStore, fillLists);
    const leat = await startLeat(tempStore, { ...settings, ...probe.settings });
    const client = startChild('./hostile-client.ts', [leat.url, JSON.stringify(headers)]);
    await publishDelays(leat, load);

    let before = await measureAlone(leat, probe);
    const names = hostileCases().map(({ name }) => name);
    const figures = await inTurn(
      names.filter((name) => name.includes(cases)),
      async (name) => {
        const seen: Round[] = [];
        for (let round = 0; round < rounds; round += 1) {
          progress(`${name}, round ${round + 1} of ${rounds}`);
          const underLoad = await measure(name, { leat, probe, client });
          // The requests of the case have ended before the server is measured alone again.
          await wait(0.5);
          const after = await measureAlone(leat, probe);
          seen.push({ alone: [before, after], underLoad });
          before = after;
        }
        return figuresOf(name, seen);
      },
    );
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
  { leat, probe, client }: { leat: Running; probe: HoldProbe; client: ChildProcess },
): Promise<Round['underLoad']> {
  client.send({ start: name } satisfies Ask);
  const p99 = quantile(await publishDelays(leat, load), 0.99);
  const reported = message<Statuses>(client);
  client.send({ stop: true } satisfies Ask);
  const statuses = await reported;
  return { p99, holds: await probe.longest(leat), statuses };
}

async function measureAlone(leat: Running, probe: HoldProbe): Promise<Seen> {
  await probe.longest(leat);
  const p99 = quantile(await publishDelays(leat, load), 0.99);
  return { p99, holds: await probe.longest(leat) };
}

function figuresOf(name: string, rounds: readonly Round[]): Figure[] {
  const worseAlone = (of: (seen: Seen) => number) =>
    rounds.map(({ alone }) => Math.max(...alone.map(of)));
  const holdsAlone = worseAlone(({ holds }) => holds.longestMs);
  const p99Alone = worseAlone(({ p99 }) => p99);
  const p99 = rounds.map(({ underLoad }) => underLoad.p99);
  const times = median(p99.map((ms, round) => ms / (p99Alone[round] ?? NaN)));
  const statuses = JSON.stringify(rounds.at(-1)?.underLoad.statuses).replaceAll('"', '');
  const holds = rounds.map(({ underLoad }) => underLoad.holds);
  return [
    holdFigure(`${name}: hold`, holds, holdsAlone, `; responses ${statuses}`),
    figure(`${name}: p99`, 'ms', p99, {
      detail: `${times.toFixed(1)} times the ${median(p99Alone).toFixed(1)} ms alone`,
      most: Math.ceil(Math.max(p99MsMax, 2 * median(p99Alone))),
    }),
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
  const types = Array.from({ length: 1000 }, (_, n) => `a.${'b'.repeat(110)}${n}`);
  const stream = { tenant: hostileTenant, status: 'disabled', types } as const;
  await addStreams(
    store,
    9,
    Array.from({ length: 100 }, () => stream),
  );
}
