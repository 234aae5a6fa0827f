import { createTenant } from '../src/auth/bootstrap.ts';
import { systemClock, systemRandom } from '../src/clock.ts';
import type { Store } from '../src/store/port/store.ts';
import { freePort, waitFor } from '../test/helpers/leat.ts';
import { twoTenantsSettings } from '../test/helpers/tenants.ts';
import type { Bench, Figure, Progress } from './bench.ts';
import { withReceiver } from './child.ts';
import { watch } from './idle.ts';
import { addStreams, type Engine, startLeat, withStore } from './leat.ts';
import { onBoth } from './postgres.ts';
import { cpuPercent, familyMicros, wait } from './proc.ts';
import { figure } from './report.ts';
import { publish } from './steady.ts';

const tenants = 10_000;
const streamsPerTenant = 10;
/** Tenants that are filled at the same time. */
const atOnce = 16;
/** Pause after the last stream was claimed, in which garbage of the start is collected. */
const restSeconds = 30;
/** Includes a round of upkeep. */
const watchSeconds = 60;
const lastTenant = { name: 'last', domain: 'last.example.com' };

/** The cost of a start with many streams of many tenants, and of the idle streams. Linux only. */
export const sizes: Bench = {
  name: 'sizes',
  what: `${tenants * streamsPerTenant} streams of ${tenants} tenants: from the start of the process to the first delivery to the last tenant, CPU over ${watchSeconds} s and memory once every stream is owned and at the head of its log; no comparison`,
  run: (progress) => onBoth((engine) => measure(engine, progress)),
};

function measure(engine: Engine, progress: Progress): Promise<Figure[]> {
  return withReceiver([], async (receiver) => {
    const name = engine.name === 'SQLite' ? 'sqlite' : 'postgres';
    const tempStore = await engine.createTempStore();
    const client = await withStore(tempStore, (store) => fill(store, receiver.port, progress));
    progress(`${name}: starting`);
    const metricsPort = await freePort();
    const settings = twoTenantsSettings(await freePort());
    const began = performance.now();
    const seconds = (): number => (performance.now() - began) / 1000;
    const leat = await startLeat(tempStore, {
      ...settings,
      LEAT_METRICS_PORT: String(metricsPort),
    });
    const ready = seconds();
    await publishToLast(leat.url, client);
    await receiver.received(1);
    const delivered = seconds();
    progress(`${name}: delivered after ${delivered.toFixed(1)} s; waiting for rest`);
    await atRest(`http://127.0.0.1:${metricsPort}/metrics`);
    const detail = `ready after ${ready.toFixed(1)} s, every stream owned after ${seconds().toFixed(0)} s`;
    progress(`${name}: ${detail}; watching for ${watchSeconds} s`);
    await wait(restSeconds);
    const { serverPid } = engine;
    const most = { seconds: watchSeconds, percent: 2, megabytes: 500 };
    const [figures, ofServer] = await Promise.all([
      watch(leat, [`${name}, CPU at rest`, `${name}, memory`], most),
      serverPid === undefined ? undefined : cpuPercent(serverPid, watchSeconds, familyMicros),
    ]);
    await leat.end();
    await tempStore.remove();
    const about = { detail: 'all processes of the server' };
    return [
      figure(`${name}, first delivery`, 's', [delivered], { detail, most: 5 }),
      ...figures,
      ...(ofServer === undefined
        ? []
        : [figure(`${name}, CPU of the database at rest`, '% of a core', [ofServer], about)]),
    ];
  });
}

interface Client {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Creates the tenants and their streams; returns a client of the last tenant. */
async function fill(store: Store, port: number, progress: Progress): Promise<Client> {
  const now = systemClock.now();
  const streams = async (tenant: number): Promise<void> => {
    const all = Array.from({ length: streamsPerTenant }, (_, index) => ({
      tenant,
      types: [index === 0 ? 'order.paid' : 'order.sent'],
    }));
    await addStreams(store, port, all);
  };
  let made = 2;
  const makeNext = async (): Promise<void> => {
    while (made <= tenants) {
      const number = made++;
      if (number % 500 === 0) progress(`filling: ${number} of ${tenants} tenants`);
      const named = { name: `t${number}`, domain: `t${number}.example.com` };
      const tenant = await store.tenants.create(named, now);
      if ('refused' in tenant) throw new Error(tenant.refused);
      await streams(tenant.created.id);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, makeNext));
  const last = await createTenant({ store, random: systemRandom, now }, lastTenant);
  if ('refused' in last) throw new Error(last.refused);
  await streams(last.created.id);
  return last;
}

/** Waits until the node owns every stream, each is at the head of its log and nothing is in progress. */
async function atRest(metricsUrl: string): Promise<void> {
  let owned = 0;
  const isOver = async (): Promise<boolean> => {
    const text = await (await fetch(metricsUrl)).text();
    const valueOf = (name: string): number =>
      Number(new RegExp(`^leat_${name} (\\d+)$`, 'm').exec(text)?.[1]);
    owned = valueOf('streams_owned');
    const left = ['streams_behind', 'attempts_in_flight', 'results_unsettled'].map(valueOf);
    return owned >= tenants * streamsPerTenant && left.every((count) => count === 0);
  };
  await waitFor('every stream to have an owner', isOver, {
    progress: () => owned,
    intervalMsFirst: 1000,
    intervalMsMax: 2000,
  });
}

async function publishToLast(url: string, { clientId, clientSecret }: Client): Promise<void> {
  const headers = {
    'content-type': 'application/json',
    'x-forwarded-host': lastTenant.domain,
    'x-forwarded-proto': 'https',
  };
  const body = {
    grant_type: 'client_credentials',
    audience: '/api/v2/',
    client_id: clientId,
    client_secret: clientSecret,
  };
  const response = await fetch(`${url}/oauth/token`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  const { access_token: token } = (await response.json()) as { access_token: string };
  const authorization = `Bearer ${token}`;
  await publish({ url, headers: { ...headers, authorization } }, '{"type":"order.paid","data":{}}');
}
