import { setTimeout as sleep } from 'node:timers/promises';
import { createStream, eventsOf, freshType, publishAll } from '../helpers/api-client.ts';
import type { Scope } from '../helpers/cluster.ts';
import { oneTimeLink } from '../helpers/console-page.ts';
import { noNginx, sendAfterIdleTimes } from '../helpers/idle-proxy.ts';
import {
  bootstrapClient,
  fetchToken,
  freePort,
  runLeat,
  type Running,
  storeEnvironment,
} from '../helpers/leat.ts';
import { compareThirds, createMemoryProbe, type Usage } from '../helpers/memory-probe.ts';
import { openPull } from '../helpers/pull.ts';
import { createTenant, twoTenantsSettings } from '../helpers/tenants.ts';
import { type CountingReceiver, startCountingReceiver } from '../helpers/traffic.ts';
import type { Bed } from './night.ts';
import { openSqlite, type SqliteStore } from './stores.ts';

/** Streams, tenants, readers, tokens and sessions of the console that come and go for a long time while events are published. */

export interface Churned extends SqliteStore {
  /** Of what the churn publishes. */
  readonly aside: CountingReceiver;
  readonly usages: Usage[];
  usage(node: Running): Promise<Usage>;
  /** What was wrong with requests after idle times; absent until they have begun. */
  idle?: Promise<readonly string[]>;
}

const sliceMs = 20_000;
/** Of the load balancers of the large clouds, and of nginx. */
const idleTimesMs = [60_000, 350_000];
const readers = 4;

export async function openChurned(scope: Scope): Promise<Churned> {
  const probe = createMemoryProbe(scope);
  const settings = { ...twoTenantsSettings(await freePort()), ...probe.settings };
  const aside = await startCountingReceiver(scope);
  aside.startRound();
  const store = await openSqlite(scope);
  return { ...store, aside, usages: [], usage: probe.read, settings: () => settings };
}

/** Creates and removes all of them for twenty seconds, and then notes what the node uses. */
export async function churn(bed: Bed<Churned>): Promise<void> {
  const { store, last } = bed;
  store.idle ??= sendAfterAllIdleTimes(bed);
  const untilMs = performance.now() + sliceMs;
  const repeat = async (work: () => Promise<unknown>, pauseMs: number): Promise<void> => {
    while (performance.now() < untilMs) {
      await work();
      await sleep(pauseMs);
    }
  };
  const ofStream = (): Promise<void> => churnStream(last.running, store.aside);
  await Promise.all([
    repeat(ofStream, 50),
    repeat(ofStream, 50),
    repeat(() => churnTenant(last.running, store), 1500),
    repeat(() => churnSession(last.running, store), 1500),
    repeat(() => churnToken(last.running), 200),
    ...Array.from({ length: readers }, (_, number) =>
      repeat(() => churnReader(last.running, number), 50),
    ),
  ]);
  store.usages.push(await store.usage(last.running));
}

/** Reports what has grown, and what was wrong after idle times. */
export async function finishChurn({ store, wrong }: Bed<Churned>): Promise<void> {
  for (const what of new Set(await store.idle)) wrong(what);
  for (const { key, first, last, isGrown } of compareThirds(store.usages)) {
    console.log(`  ${key}: ${first} in the first third, ${last} in the last one`);
    if (isGrown) wrong(`${key} grew from ${first} to ${last}`);
  }
}

async function churnStream(leat: Running, receiver: CountingReceiver): Promise<void> {
  const type = freshType();
  const name = `churn-${type}`;
  const { id } = await createStream(leat, `${receiver.url}/${name}`, { name, types: [type] });
  const ids = await publishAll(leat, eventsOf(type, 5));
  await receiver.waitForAll('the events of a stream that is to be deleted', [name], ids);
  const path = `/api/v2/event-streams/${id}`;
  await expectStatus(200, leat.send('PATCH', path, { status: 'disabled' }));
  await expectStatus(204, leat.send('DELETE', path));
}

let tenants = 0;

async function churnTenant(leat: Running, store: Churned): Promise<void> {
  tenants += 1;
  const name = `tenant-${tenants}`;
  const tenant = await createTenant(leat, store.file, name);
  const type = freshType();
  await createStream(tenant, `${store.aside.url}/${name}`, { name, types: [type] });
  const ids = await publishAll(tenant, eventsOf(type, 5));
  await store.aside.waitForAll('the events of a tenant that is to be deleted', [name], ids);
  const words = ['tenants', 'delete', name, '--yes', name];
  const { code, output } = await runLeat(words, storeEnvironment(store));
  if (code !== 0) throw new Error(output);
}

/** Its pull has to end with the session. */
async function churnSession(leat: Running, store: Churned): Promise<void> {
  const link = await oneTimeLink('operator', storeEnvironment(store), store);
  const own = { 'sec-fetch-site': 'same-origin', 'leat-console': '1' };
  const [, code = ''] = link.split('#code=');
  const request = { method: 'POST', body: JSON.stringify({ code }) };
  const headers = { ...own, 'content-type': 'application/json' };
  const signedIn = await expectStatus(
    201,
    fetch(`${leat.url}/console/session`, { ...request, headers }),
  );
  const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
  const withSession = { ...own, cookie };
  const streams = fetch(`${leat.url}/api/v2/event-streams`, { headers: withSession });
  await expectStatus(200, streams);
  const pull = await openPull(`${leat.url}/api/v2/events`, undefined, withSession);
  await pull.events(1);
  const ended = fetch(`${leat.url}/console/session`, { method: 'DELETE', headers: withSession });
  await expectStatus(204, ended);
  await pull.ended;
}

async function churnToken(leat: Running): Promise<void> {
  const token = await fetchToken(leat.url, bootstrapClient);
  const headers = { authorization: `Bearer ${token}` };
  await expectStatus(200, fetch(`${leat.url}/api/v2/event-streams`, { headers }));
}

/** Every other one stops reading before it leaves. */
async function churnReader(leat: Running, number: number): Promise<void> {
  const pull = await openPull(`${leat.url}/api/v2/events`, leat.token);
  await pull.events(10);
  if (number % 2 === 0) {
    pull.pause();
    await sleep(500);
  }
  pull.close();
  await pull.ended;
}

async function expectStatus(status: number, request: Promise<Response>): Promise<Response> {
  const response = await request;
  const text = await response.text();
  if (response.status !== status)
    throw new Error(`${response.status} instead of ${status}: ${text}`);
  return response;
}

/** A churn that is shorter than an idle time leaves it out. */
async function sendAfterAllIdleTimes({ faults, last }: Bed<Churned>): Promise<string[]> {
  const missing = noNginx();
  if (missing !== false) {
    console.log(`  requests after idle times: left out, ${missing}`);
    return [];
  }
  const lastsMs = faults * sliceMs;
  const authorization = `Bearer ${last.running.token}`;
  const headers = { authorization, 'content-type': 'application/json' };
  const asked = { method: 'POST', path: '/api/v2/events', headers, expected: 202 } as const;
  const ends: (() => Promise<void>)[] = [];
  const scope: Scope = { after: (end) => void ends.push(end) };
  try {
    const all = idleTimesMs.map(async (idleMs) => {
      const times = { idleMs, rounds: Math.min(5, Math.floor(lastsMs / idleMs)), clients: 21 };
      return sendAfterIdleTimes(scope, last.running.port, asked, times);
    });
    return (await Promise.all(all)).flat();
  } finally {
    for (const end of ends) await end();
  }
}
