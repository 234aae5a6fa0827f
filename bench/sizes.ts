import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { request } from 'undici';
import { createTenant } from '../src/auth/bootstrap.ts';
import { systemClock, systemRandom } from '../src/clock.ts';
import { makeId } from '../src/core/ids.ts';
import { makeSecret } from '../src/core/sign.ts';
import { firstKeyCheck } from '../src/store/key-check.ts';
import { placeOfStream } from '../src/store/rows/streams.ts';
import { createSeal } from '../src/store/seal.ts';
import { bootstrapClient, freePort, secretKey, spawnLeat } from '../test/helpers/leat.ts';
import type { Bench, Figure } from './bench.ts';
import { endChild } from './child.ts';
import { createTempStore, type TempStore, withStore } from './leat.ts';
import { withClient, withPostgres } from './postgres.ts';
import { beginProfile, profiledEnvironment } from './profile.ts';
import { cpuPercent, familyCpuPercent, peakMegabytes, residentMegabytes, wait } from './proc.ts';

const tenants = 10_000;
const streamsPerTenant = 10;
/** Pause after the last stream was claimed, in which garbage of the start is collected. */
const restSeconds = 30;
/** Includes a round of upkeep. */
const watchSeconds = 60;
const lastTenant = { name: 'last', domain: 'last.example.com' };

/** The cost of a start with many streams of many tenants, and of the idle streams. Linux only. */
export const sizes: Bench = {
  name: 'sizes',
  what: `${tenants * streamsPerTenant} streams of ${tenants} tenants: from the start of the process to the first delivery to the last tenant, CPU over ${watchSeconds} s and memory once every stream is owned and at the head of its log; no comparison`,
  run: async (progress) => {
    const tempStore = await createTempStore();
    const onSqlite = await measure('sqlite', tempStore, progress, insertSqlite);
    const onPostgres = await withPostgres(async (database) => {
      const own = await database.createTempStore();
      const insert = (rows: Rows) => insertPostgres(own.url, rows);
      return measure('postgres', own, progress, insert, database.pid);
    });
    return [...onSqlite, ...onPostgres];
  },
};

interface Rows {
  readonly tempStore: TempStore;
  readonly streams: readonly StreamRow[];
}

interface StreamRow {
  readonly tenant: number;
  readonly id: string;
  readonly name: string;
  readonly destination: Uint8Array;
  readonly signingSecrets: Uint8Array;
}

async function measure(
  engine: string,
  tempStore: TempStore,
  progress: (text: string) => void,
  insert: (rows: Rows) => Promise<void>,
  server?: number,
): Promise<Figure[]> {
  const receiver = createServer((incoming, response) => {
    incoming.resume();
    response.writeHead(204).end();
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const { port: receiverPort } = receiver.address() as AddressInfo;
  progress(`${engine}: filling the store`);
  const [port, metricsPort] = [await freePort(), await freePort()];
  const client = await fill(tempStore, receiverPort, insert);
  progress(`${engine}: starting`);
  const began = performance.now();
  const { child, output } = spawnLeat(
    ['serve'],
    profiledEnvironment({
      LEAT_STORE: `sqlite:${tempStore.file}`,
      ...tempStore.settings,
      LEAT_SECRET_KEY: secretKey.toString('base64'),
      LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
      LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
      LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
      LEAT_EGRESS_ALLOW: '127.0.0.0/8',
      LEAT_LOG_LEVEL: 'warn',
      LEAT_TENANT_DOMAIN: 'main.example.com',
      LEAT_PORT: String(port),
      LEAT_METRICS_PORT: String(metricsPort),
    }),
    { cwd: tempStore.folder },
  );
  beginProfile(child, 'server');
  try {
    const check = (): void => {
      if (child.exitCode !== null) throw new Error(output());
    };
    const ready = await readySince(began, `http://127.0.0.1:${port}`, check);
    const delivered = once(receiver, 'request');
    await publish(`http://127.0.0.1:${port}`, client);
    await delivered;
    const seconds = (performance.now() - began) / 1000;
    progress(`${engine}: delivered after ${seconds.toFixed(1)} s; waiting for rest`);
    await atRest(`http://127.0.0.1:${metricsPort}/metrics`, check);
    const rested = (performance.now() - began) / 1000;
    progress(`${engine}: at rest after ${rested.toFixed(0)} s; watching for ${watchSeconds} s`);
    await wait(restSeconds);
    const detail = `ready after ${ready.toFixed(1)} s, every stream owned after ${rested.toFixed(0)} s`;
    return [
      figure(`${engine}, first delivery`, detail, seconds, 's', 5),
      ...(await watchAtRest(engine, child.pid ?? 0, server)),
    ];
  } finally {
    await endChild(child);
    receiver.close();
    receiver.closeAllConnections();
    await tempStore.remove();
  }
}

/** The CPU time of Leat has a limit; that of the database is shown only. */
async function watchAtRest(
  engine: string,
  pid: number,
  server: number | undefined,
): Promise<Figure[]> {
  const [percent, serverPercent] = await Promise.all([
    cpuPercent(pid, watchSeconds),
    server === undefined ? undefined : familyCpuPercent(server, watchSeconds),
  ]);
  const megabytes = await residentMegabytes(pid);
  const peak = `${(await peakMegabytes(pid)).toFixed(0)} MB at most since the start`;
  const ofServer = 'all processes of the server';
  return [
    figure(`${engine}, CPU at rest`, 'the process of Leat', percent, '% of a core', 2),
    ...(serverPercent === undefined
      ? []
      : [figure(`${engine}, CPU of the database at rest`, ofServer, serverPercent, '% of a core')]),
    figure(`${engine}, memory`, peak, megabytes, 'MB resident', 500),
  ];
}

function figure(name: string, detail: string, value: number, unit: string, limit?: number): Figure {
  const must = limit === undefined ? undefined : ({ kind: 'most', value: limit } as const);
  return { name, detail, values: [value], unit, must, goal: undefined };
}

interface Client {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Creates the tenants and their streams; returns a client of the last tenant. */
async function fill(
  tempStore: TempStore,
  receiverPort: number,
  insert: (rows: Rows) => Promise<void>,
): Promise<Client> {
  await withStore(tempStore, async () => undefined);
  const others = Array.from({ length: tenants - 1 }, (_, index) => index + 2);
  await insert({ tempStore, streams: others.flatMap((tenant) => streamsOf(tenant, receiverPort)) });
  const now = systemClock.now();
  const made = await withStore(tempStore, (store) =>
    createTenant({ store, random: systemRandom, now }, lastTenant),
  );
  if ('refused' in made) throw new Error(made.refused);
  await insert({ tempStore, streams: streamsOf(made.created.id, receiverPort) });
  return made;
}

const seal = createSeal([secretKey], systemRandom);
const keyCheck = firstKeyCheck(seal);

function streamsOf(tenant: number, receiverPort: number): StreamRow[] {
  const now = systemClock.now();
  return Array.from({ length: streamsPerTenant }, (_, stream) => {
    const destination = {
      type: 'webhook',
      endpoint: `http://127.0.0.1:${receiverPort}/${tenant}/${stream}`,
      authorization: { method: 'bearer', token: 'token-of-the-bench' },
    };
    const id = makeId('est_', now, systemRandom);
    const sealed = (value: unknown, column: 'destination' | 'signing_secrets'): Uint8Array =>
      seal.seal(JSON.stringify(value), placeOfStream({ tenant, id }, column), keyCheck);
    return {
      tenant,
      id,
      name: `stream-${stream}`,
      destination: sealed(destination, 'destination'),
      signingSecrets: sealed(
        [{ secret: makeSecret(systemRandom), createdAt: now }],
        'signing_secrets',
      ),
    };
  });
}

const subscriptionsOf = (index: number): string =>
  JSON.stringify([
    { after: 0, types: [index % streamsPerTenant === 0 ? 'order.paid' : 'order.sent'] },
  ]);

async function insertSqlite({ tempStore, streams }: Rows): Promise<void> {
  const db = new DatabaseSync(tempStore.file);
  const now = systemClock.now();
  db.exec('begin');
  const tenant = db.prepare(
    'insert or ignore into tenants (id, name, domain, created_at) values (?, ?, ?, ?)',
  );
  const stream = db.prepare(`
    insert into streams (tenant, id, name, status, subscriptions, destination, signing_secrets,
      version, created_at, updated_at) values (?, ?, ?, 'enabled', ?, ?, ?, 1, ?, ?)`);
  const run = db.prepare(`
    insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch)
    values (?, ?, 0, 1, 0, 0, 0)`);
  for (const [index, row] of streams.entries()) {
    tenant.run(row.tenant, `t${row.tenant}`, `t${row.tenant}.example.com`, now);
    const types = subscriptionsOf(index);
    stream.run(row.tenant, row.id, row.name, types, row.destination, row.signingSecrets, now, now);
    run.run(row.tenant, row.id);
  }
  db.exec('commit');
  db.close();
}

async function insertPostgres(url: string, { streams }: Rows): Promise<void> {
  const now = systemClock.now();
  const column = <T>(pick: (row: StreamRow, index: number) => T): T[] => streams.map(pick);
  await withClient(url, async (client) => {
    await client.query(
      `insert into tenants (id, name, domain, created_at) overriding system value
       select distinct id, 't' || id, 't' || id || '.example.com', $2::bigint
       from unnest($1::int[]) as u(id) on conflict do nothing`,
      [column(({ tenant }) => tenant), now],
    );
    await client.query(
      `insert into streams (tenant, id, name, status, subscriptions, destination, signing_secrets,
         version, created_at, updated_at)
       select tenant, id, name, 'enabled', subscriptions, destination, secrets, 1, $7::bigint, $7
       from unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[])
         as u(tenant, id, name, subscriptions, destination, secrets)`,
      [
        column(({ tenant }) => tenant),
        column(({ id }) => id),
        column(({ name }) => name),
        column((_, index) => subscriptionsOf(index)),
        column(({ destination }) => destination),
        column(({ signingSecrets }) => signingSecrets),
        now,
      ],
    );
    await client.query(`
      insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch)
      select tenant, id, 0, 1, 0, 0, 0 from streams on conflict do nothing`);
    await client.query(`select setval('tenants_id_seq', (select max(id) from tenants))`);
    await client.query('vacuum analyze');
  });
}

/** Waits for `/readyz`; returns the seconds since `began`. */
async function readySince(began: number, url: string, check: () => void): Promise<number> {
  for (;;) {
    check();
    const status = await request(`${url}/readyz`).then(
      async ({ statusCode, body }) => (await body.dump(), statusCode),
      () => 0,
    );
    if (status === 200) return (performance.now() - began) / 1000;
    await wait(0.02);
  }
}

/** Waits until the node owns every stream, each is at the head of its log and nothing is in progress. */
async function atRest(metricsUrl: string, check: () => void): Promise<void> {
  for (;;) {
    check();
    const text = await (await request(metricsUrl)).body.text();
    const valueOf = (name: string): number =>
      Number(new RegExp(`^leat_${name} (\\d+)$`, 'm').exec(text)?.[1]);
    const left = ['streams_behind', 'attempts_in_flight', 'results_unsettled'].map(valueOf);
    const owned = valueOf('streams_owned');
    if (owned >= tenants * streamsPerTenant && left.every((count) => count === 0)) return;
    await wait(2);
  }
}

async function publish(url: string, { clientId, clientSecret }: Client): Promise<void> {
  const headers = { host: lastTenant.domain, 'content-type': 'application/json' };
  const token = await request(`${url}/oauth/token`, {
    method: 'POST',
    headers,
    body: JSON.stringify({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: clientId,
      client_secret: clientSecret,
    }),
  });
  const { access_token: bearer } = (await token.body.json()) as { access_token: string };
  const response = await request(`${url}/api/v2/events`, {
    method: 'POST',
    headers: { ...headers, authorization: `Bearer ${bearer}` },
    body: JSON.stringify({ type: 'order.paid', data: {} }),
  });
  if (response.statusCode !== 202) throw new Error(await response.body.text());
  await response.body.dump();
}
