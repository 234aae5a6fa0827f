import assert from 'node:assert/strict';
import { createHmac, createPublicKey, type JsonWebKeyInput, verify } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import {
  createLocalJWKSet,
  importJWK,
  type JSONWebKeySet,
  type JWK,
  jwtVerify,
  SignJWT,
} from 'jose';
import {
  type EngineName,
  loadPostgres,
  setPostgresClock,
  unpack,
  writeSqlite,
} from '../helpers/earlier-store.ts';
import {
  createTempStore,
  type Running,
  runLeat,
  startLeat,
  storeEnvironment,
} from '../helpers/leat.ts';
import { sharedPostgres } from '../helpers/postgres.ts';
import { type ReceivedRequest, type Receiver, reply, startReceiver } from '../helpers/receiver.ts';
import { createShiftedClock } from '../helpers/shifted-clock.ts';
import {
  describeAccess,
  describeTenant,
  type Description,
  onlyFieldsOf,
} from '../helpers/store-description.ts';
import { waitFor } from '../helpers/wait.ts';

/**
 * The program on a store that an earlier program has filled: see `earlier/README.md`. Its clock goes on
 * where that program was killed.
 */

/** What the program that filled the store knew of it. */
interface Known {
  /** When it was killed. */
  readonly now: number;
  /** Of the receiver. */
  readonly port: number;
  /** Ids by name. */
  readonly streams: Readonly<Record<string, string>>;
  /** Ids by type, in the order of the log. */
  readonly events: Readonly<Record<string, readonly string[]>>;
  /** Ids of events that were published with a trace. */
  readonly traced: readonly string[];
  readonly dismissals: readonly string[];
  readonly redeliveries: readonly string[];
  readonly replay: string;
  /** The repetition of an event that was published. */
  readonly repeat: { readonly type: string; readonly id: string; readonly data: object };
  readonly acme: Credentials & {
    readonly replay: string;
    readonly redelivery: string;
    readonly begun: { readonly redelivery: string; readonly dismissal: string };
  };
  /** A client with a secret, and one with a key, which has used an assertion. */
  readonly clientA: Credentials;
  readonly clientK: { readonly id: string; readonly key: JWK };
  readonly assertion: string;
  readonly tokenA: string;
  readonly managementToken: string;
  /** The secret of `rotated` before its rotation. */
  readonly formerSecret: string;
  /** A session of the console, and a code that nobody has used. */
  readonly cookie: string;
  readonly code: string;
}

interface Credentials {
  readonly id: string;
  readonly secret: string;
}

interface Expected {
  readonly known: Known;
  readonly main: Description;
  readonly acme: Description;
  readonly commands: Readonly<Record<string, string>>;
  /** Ids of the events that arrive, by path: of themselves, once the streams go on, and hours later. */
  readonly arrivals: readonly Readonly<Record<string, readonly string[]>>[];
}

const hourMs = 3_600_000;

for (const engine of ['sqlite', 'postgres'] as const) {
  const tags = engine === 'sqlite' ? [] : ['long'];
  const title = `${engine}: nothing of a store that an earlier program has filled is lost`;
  test(title, { tags }, async (t) => {
    const expected = JSON.parse(unpack(`${engine}.json`).toString()) as Expected;
    const store = await openEarlier(t, engine, expected.known);
    const found: Record<string, unknown> = {};
    await t.test('shows all of the first tenant as it was', async () => {
      const shown = await describeTenant(store.main, {
        from: new Date(expected.known.now - 10 * 24 * hourMs).toISOString(),
        to: new Date(expected.known.now).toISOString(),
        dismissals: expected.known.dismissals,
      });
      found['main'] = shown;
      assertShown(shown, expected.main);
    });
    await t.test('shows access of the second tenant as it was', async () => {
      const to = new Date(expected.known.now).toISOString();
      const shown = await describeAccess(store.acme, { to });
      found['acme'] = shown;
      assertShown(shown, expected.acme);
    });
    await t.test('knows tenants and keys', async () => {
      const commands = ['tenants list', 'keys list', 'keys list --tenant acme'];
      const shown = Object.fromEntries(
        await Promise.all(
          commands.map(async (words) => [words, await store.command(...words.split(' '))] as const),
        ),
      );
      found['commands'] = shown;
      assert.deepEqual(shown, expected.commands);
    });
    await t.test('accepts tokens, clients and sessions of before', () => assertAccess(store));
    await t.test('sends what the second tenant had under way', () => assertUnderWay(store));
    found['arrivals'] = [store.taken()];
    await t.test('sends what waited in the first tenant', () => assertResumed(store));
    found['arrivals'] = [...(found['arrivals'] as object[]), store.taken()];
    await t.test('signs and authorizes with the secrets of before', () => assertSecrets(store));
    store.taken();
    await store.restart(3 * hourMs);
    await t.test('sends retries once they are due', () => assertRetries(store));
    found['arrivals'] = [...(found['arrivals'] as object[]), store.taken()];
    const folder = process.env['LEAT_TEST_WRITE_EARLIER'];
    if (folder !== undefined) writeFileSync(`${folder}/${engine}.json`, JSON.stringify(found));
    await t.test('sends the traces of what it sends', () => assertTraces(store));
    await t.test('sends what it has to and nothing else', () => {
      assert.deepEqual(found['arrivals'], expected.arrivals);
    });
    await t.test('sends no alert again', () => assertAlerts(store));
  });
}

/** Compares request by request, so that a failure shows one response. */
function assertShown(shown: Description, expected: Description): void {
  for (const [path, body] of Object.entries(expected)) {
    assert.deepEqual(onlyFieldsOf(shown[path], body), body, path);
  }
}

interface EarlierStore {
  readonly known: Known;
  readonly receiver: Receiver;
  main(path: string): Promise<unknown>;
  acme(path: string): Promise<unknown>;
  /** Sends a request to the management API of the first tenant. */
  send(method: string, path: string, body?: unknown): Promise<Response>;
  /** Sends a request without a token. */
  raw(method: string, path: string, options?: RawOptions): Promise<Response>;
  command(...words: string[]): Promise<string>;
  /** The time of the program. */
  now(): number;
  /** Ends the program and starts it later. */
  restart(laterMs: number): Promise<void>;
  /** Requests at a path since the last {@link EarlierStore.taken}. */
  at(path: string): readonly ReceivedRequest[];
  /** Returns the ids of events that have arrived since the last call, by path. */
  taken(): Record<string, string[]>;
}

interface RawOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

async function openEarlier(
  t: TestContext,
  engine: EngineName,
  known: Known,
): Promise<EarlierStore> {
  // A minute later: leases of the program that was killed have ended.
  const clock = createShiftedClock(t);
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const url = engine === 'postgres' ? await (await sharedPostgres()).createDatabase() : undefined;
  if (url === undefined) writeSqlite(tempStore.folder);
  else await loadPostgres(url);
  let aheadMs = 0;
  const setTime = async (at: number): Promise<void> => {
    aheadMs = at - Date.now();
    clock.shift(aheadMs);
    if (url !== undefined) await setPostgresClock(url, aheadMs);
  };
  await setTime(known.now + 60_000);
  const receiver = await receiverAt(known.port);
  t.after(() => receiver.close());
  const settings = {
    ...(url === undefined ? {} : { LEAT_STORE: url }),
    ...settingsOf(known.port),
    ...clock.settings,
  };
  let leat: Running = await startLeat(tempStore, settings);
  t.after(() => leat.kill());
  const acmeToken = await tokenOf(leat, 'acme.example.com', known.acme);
  let passed = 0;
  const get = async (path: string, headers: object): Promise<unknown> => {
    const whole = path.startsWith('/.well-known/') ? path : `/api/v2${path}`;
    const response = await leat.send('GET', whole, undefined, headers);
    assert.equal(response.status, 200, `${path}: ${response.status}`);
    return response.json();
  };
  const acmeHeaders = { ...hostOf('acme.example.com'), authorization: `Bearer ${acmeToken}` };
  return {
    known,
    receiver,
    main: (path) => get(path, hostOf('main.example.com')),
    acme: (path) => get(path, acmeHeaders),
    send: (method, path, body) =>
      leat.send(method, `/api/v2${path}`, body, hostOf('main.example.com')),
    raw: (method, path, { headers, body } = {}) =>
      fetch(leat.url + path, {
        method,
        headers: { ...hostOf('main.example.com'), 'content-type': 'application/json', ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    command: async (...words) => {
      const env = { ...storeEnvironment(tempStore), ...settings };
      const { code, output } = await runLeat(words, env, { cwd: tempStore.folder });
      assert.equal(code, 0, output);
      return output;
    },
    now: () => Date.now() + aheadMs,
    restart: async (laterMs) => {
      await leat.stop();
      await setTime(Date.now() + aheadMs + laterMs);
      leat = await startLeat(tempStore, settings);
    },
    at: (path) => receiver.requests.slice(passed).filter((request) => request.path === path),
    taken: () => {
      const requests = receiver.requests.slice(passed).filter(({ path }) => !ownPaths.has(path));
      passed = receiver.requests.length;
      const groups = Object.groupBy(requests, ({ path }) => path);
      const ids = Object.entries(groups).map(([path, list = []]): [string, string[]] => [
        path,
        list.map(({ headers }) => headers['webhook-id'] ?? '').toSorted(),
      ]);
      return Object.fromEntries(ids.toSorted(([one], [other]) => (one < other ? -1 : 1)));
    },
  };
}

/** Paths of the receiver to which no events are sent. */
const ownPaths = new Set(['/token', '/alerts']);

/** As those of the program that filled the store. */
function settingsOf(port: number): Record<string, string> {
  return {
    LEAT_TENANT_NAME: 'main',
    LEAT_TENANT_DOMAIN: 'main.example.com',
    LEAT_TRUST_PROXY: '127.0.0.1',
    LEAT_RETRY_DELAYS_MS: '200,7200000',
    LEAT_DISABLE_CONSECUTIVE: '20',
    LEAT_LAG_MAX_DAYS: '2',
    LEAT_ALERT_WEBHOOK_URL: `http://127.0.0.1:${port}/alerts`,
    LEAT_MONITOR_INTERVAL_SECONDS: '2',
    LEAT_TRUSTED_ISSUERS: 'https://issuer.example.net/',
  };
}

function hostOf(domain: string): Record<string, string> {
  return { 'x-forwarded-host': domain, 'x-forwarded-proto': 'https' };
}

/** The port is part of the stored streams; another run of this test may have it for a while. */
async function receiverAt(port: number): Promise<Receiver> {
  const respond = (wire: Parameters<Receiver['respond']>[0], request: ReceivedRequest) =>
    request.path === '/token'
      ? reply(200, tokenBody, { 'content-type': 'application/json' })(wire, request)
      : reply(204)(wire, request);
  const listen = () => startReceiver({ port, respond }).catch(() => undefined);
  return waitFor(`port ${port} to be free`, listen, { stallMs: 600_000 });
}

const tokenBody = JSON.stringify({
  access_token: 'token-of-the-lake',
  token_type: 'Bearer',
  expires_in: 3600,
});

async function tokenOf(
  { url }: Pick<Running, 'url'>,
  domain: string,
  { id, secret }: Credentials,
): Promise<string> {
  const response = await fetch(`${url}/oauth/token`, {
    method: 'POST',
    headers: { ...hostOf(domain), 'content-type': 'application/json' },
    body: JSON.stringify({
      grant_type: 'client_credentials',
      audience: `https://${domain}/api/v2/`,
      client_id: id,
      client_secret: secret,
    }),
  });
  const { access_token: token } = (await response.json()) as { access_token?: string };
  assert.ok(token !== undefined, `${domain}: ${response.status}`);
  return token;
}

// Access

async function assertAccess(store: EarlierStore): Promise<void> {
  const { known, raw } = store;
  const own = { 'sec-fetch-site': 'same-origin', 'leat-console': '1' };
  const issue = async (fields: object): Promise<Response> =>
    raw('POST', '/oauth/token', {
      body: { grant_type: 'client_credentials', audience: 'https://orders.example.com', ...fields },
    });
  const keys = await (await raw('GET', '/.well-known/jwks.json')).json();
  const verified = await jwtVerify(known.tokenA, createLocalJWKSet(keys as JSONWebKeySet), {
    issuer: 'https://main.example.com/',
    audience: 'https://orders.example.com',
    currentDate: new Date(known.now),
  });
  assert.deepEqual(verified.payload['permissions'], ['read:orders', 'write:orders']);

  const headers = { authorization: `Bearer ${known.managementToken}` };
  assert.equal((await raw('GET', '/api/v2/clients', { headers })).status, 200);
  const { id: client_id, secret: client_secret } = known.clientA;
  const issued = await issue({ client_id, client_secret });
  assert.equal(issued.status, 200);
  const { access_token: token } = (await issued.json()) as { access_token: string };
  const again = await jwtVerify(token, createLocalJWKSet(keys as JSONWebKeySet), {
    currentDate: new Date(store.now()),
  });
  const { permissions, exp = 0, iat = 0 } = again.payload;
  assert.deepEqual([permissions, exp - iat], [['read:orders', 'write:orders'], 1234]);
  assert.equal((await issue({ client_id, client_secret: `${client_secret}x` })).status, 401);

  const bearer = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
  const assertion = { client_assertion_type: bearer };
  assert.equal((await issue({ ...assertion, client_assertion: known.assertion })).status, 401);
  const at = Math.floor(store.now() / 1000);
  const fresh = await new SignJWT({ jti: 'a fresh one' })
    .setProtectedHeader({ alg: 'ES256', kid: 'key-1' })
    .setIssuer(known.clientK.id)
    .setSubject(known.clientK.id)
    .setAudience('https://main.example.com/oauth/token')
    .setIssuedAt(at)
    .setExpirationTime(at + 60)
    .sign(await importJWK(known.clientK.key, 'ES256'));
  assert.equal((await issue({ ...assertion, client_assertion: fresh })).status, 200);

  const session = await raw('GET', '/console/session', {
    headers: { ...own, cookie: known.cookie },
  });
  assert.equal(session.status, 200);
  assert.equal(((await session.json()) as { role: string }).role, 'operator');
  const signIn = { headers: own, body: { code: known.code } };
  const signedIn = await raw('POST', '/console/session', signIn);
  assert.equal(signedIn.status, 201);
  assert.equal(((await signedIn.json()) as { role: string }).role, 'viewer');
}

// Deliveries

async function assertUnderWay(store: EarlierStore): Promise<void> {
  const { known, acme } = store;
  const statusOf = async (path: string): Promise<unknown> =>
    ((await acme(path)) as { status: unknown }).status;
  const { 'acme-replay': replayed, 'let-go': letGo, big, taken } = known.streams;
  const ends = [
    `/event-streams/${replayed}/replay/${known.acme.replay}`,
    `/redeliveries/${known.acme.redelivery}`,
    `/redeliveries/${known.acme.begun.redelivery}`,
    `/dismissals/${known.acme.begun.dismissal}`,
  ];
  for (const path of ends) {
    await waitFor(`${path} to end`, async () => (await statusOf(path)) === 'done', {
      progress: () => store.receiver.requests.length,
    });
  }
  for (const id of [big, taken, letGo]) {
    const { failures } = (await acme(`/event-streams/${id}/health`)) as Health;
    assert.equal(failures.open, 0);
  }
  const cut = `/event-streams/${known.streams['cut']}/health`;
  await waitFor('all events of cut', async () => {
    const { lag, in_flight: inFlight, retrying } = (await acme(cut)) as Health;
    return lag.events === 0 && inFlight === 0 && retrying === 0;
  });
  const dismissal = (await acme(`/dismissals/${known.acme.begun.dismissal}`)) as object;
  assert.deepEqual(
    { ...dismissal, created_at: '' },
    {
      ...dismissal,
      created_at: '',
      total: 3,
      dismissed: 3,
      skipped: 0,
    },
  );
}

interface Health {
  readonly failures: { readonly open: number };
  readonly lag: { readonly events: number };
  readonly in_flight: number;
  readonly retrying: number;
}

async function assertResumed(store: EarlierStore): Promise<void> {
  const { known, send } = store;
  const { streams, events } = known;
  const did = async (method: string, path: string, body?: object): Promise<void> => {
    const response = await send(method, path, body);
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.text()}`);
  };
  for (const name of ['paused', 'lagging', 'replaying']) {
    await did('POST', `/event-streams/${streams[name]}/resume`);
  }
  for (const name of ['by-hand', 'auto', 'gone']) {
    await did('PATCH', `/event-streams/${streams[name]}`, { status: 'enabled', resume: 'held' });
  }
  const [blocking = ''] = events['t.ordered'] ?? [];
  await did('POST', `/event-streams/${streams['ordered']}/redeliver/${blocking}`);
  const repeated = await send('POST', '/events', [known.repeat]);
  assert.equal(repeated.status, 202);
  const [event] = (await repeated.json()) as { id: string; repeated?: boolean }[];
  assert.deepEqual([event?.id, event?.repeated], [events['t.plain']?.[0], true]);
  const other = await send('POST', '/events', [
    { ...known.repeat, data: { object: { other: 1 } } },
  ]);
  assert.equal(other.status, 409);
  for (const id of known.dismissals.slice(0, 1)) await did('POST', `/dismissals/${id}/reopen`);

  const replay = `/event-streams/${streams['replaying']}/replay/${known.replay}`;
  await waitFor('the replay to end', async () => {
    const { status } = (await store.main(replay)) as { status: string };
    return status === 'done';
  });
  const path = (name: string): string => `/event-streams/${streams[name]}/health`;
  for (const name of ['paused', 'lagging', 'by-hand', 'auto', 'gone', 'ordered', 'dismissing']) {
    await waitFor(`${name} to have sent all`, async () => {
      const { lag, in_flight: inFlight, retrying } = (await store.main(path(name))) as Health;
      const waits = name === 'paused' ? 2 : 0;
      return lag.events === 0 && inFlight === 0 && retrying === waits;
    });
  }
  const order = (at: string): unknown[] => store.at(at).map(({ headers }) => headers['webhook-id']);
  assert.deepEqual(
    order('/ordered'),
    [0, 2, 3].map((index) => events['t.ordered']?.[index]),
  );
  assert.deepEqual(new Set(order('/paused')), new Set(events['t.paused']?.slice(2)));
  const dismissing = (await store.main(path('dismissing'))) as Health;
  assert.equal(dismissing.failures.open, 6);
}

async function assertSecrets(store: EarlierStore): Promise<void> {
  const { send } = store;
  const types = { plain: {}, filtered: { plan: 'pro' }, oauth: {}, failing: {}, rotated: {} };
  for (const [name, object] of Object.entries(types)) {
    const event = { type: `t.${name}`, data: { object } };
    assert.equal((await send('POST', '/events', [event])).status, 202);
  }
  const filteredOut = { type: 't.filtered', data: { object: { plan: 'free' } } };
  assert.equal((await send('POST', '/events', [filteredOut])).status, 202);
  const received = async (name: string): Promise<ReceivedRequest> =>
    waitFor(`an event at ${name}`, () => store.at(`/${name}`).at(-1));
  const basic = Buffer.from('leat:password of filtered').toString('base64');
  const headers = {
    plain: { authorization: 'Bearer token of plain' },
    filtered: { authorization: `Basic ${basic}`, 'x-environment': 'production' },
    oauth: { authorization: 'Bearer token-of-the-lake' },
    failing: { 'x-api-key': 'key of failing' },
    rotated: { authorization: 'Bearer token of rotated' },
  };
  for (const [name, expected] of Object.entries(headers)) {
    const request = await received(name);
    assert.deepEqual(onlyFieldsOf(request.headers, expected), expected, name);
  }
  const token = store.receiver.requests.filter(({ path }) => path === '/token').at(-1);
  assert.match(`${token?.body} ${token?.headers['authorization']}`, tokenRequest);
  const rotated = await received('rotated');
  const present = await secretOf(store, 'rotated');
  for (const secret of [present, store.known.formerSecret]) {
    assert.ok(rotated.headers['webhook-signature']?.includes(signatureOf(rotated, secret)));
  }
  const filtered = await received('filtered');
  const signature = signatureOf(filtered, await secretOf(store, 'filtered'));
  assert.ok(filtered.headers['webhook-signature']?.includes(signature));
  await assertKeySignature(store, filtered);
}

const tokenRequest = /secret(?:%20|\+| )of(?:%20|\+| )the(?:%20|\+| )lake|Basic /;

async function secretOf({ main, known }: EarlierStore, name: string): Promise<string> {
  const path = `/event-streams/${known.streams[name]}/signing-secret`;
  return ((await main(path)) as { secret: string }).secret;
}

/** Standard Webhooks: https://www.standardwebhooks.com */
function signedText({ headers, body }: ReceivedRequest): string {
  return `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
}

function signatureOf(request: ReceivedRequest, secret: string): string {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  return `v1,${createHmac('sha256', key).update(signedText(request)).digest('base64')}`;
}

async function assertKeySignature(store: EarlierStore, request: ReceivedRequest): Promise<void> {
  const response = await store.raw('GET', '/.well-known/webhook-keys.json');
  const { keys } = (await response.json()) as { keys: JsonWebKeyInput['key'][] };
  const header = request.headers['webhook-signature'] ?? '';
  const value = /v1a,(?<value>\S+)/.exec(header)?.groups?.['value'] ?? '';
  const text = Buffer.from(signedText(request));
  const signature = Buffer.from(value, 'base64');
  const fitting = keys.filter((key) =>
    verify(null, text, createPublicKey({ key, format: 'jwk' }), signature),
  );
  assert.equal(fitting.length, 1);
}

async function assertRetries(store: EarlierStore): Promise<void> {
  const { known, main } = store;
  for (const name of ['waiting', 'ordered-waiting', 'paused', 'redelivering', 'early']) {
    const path = `/event-streams/${known.streams[name]}/health`;
    await waitFor(`the retries of ${name}`, async () => {
      const { in_flight: inFlight, retrying } = (await main(path)) as Health;
      return inFlight === 0 && retrying === 0;
    });
  }
  const order = store.at('/ordered-waiting').map(({ headers }) => headers['webhook-id']);
  const ordered = known.events['t.ordered_waiting'];
  assert.deepEqual(
    order,
    [0, 2, 3].map((index) => ordered?.[index]),
  );
  const [, half] = known.redeliveries;
  const { status, delivered, failed } = (await main(`/redeliveries/${half}`)) as {
    [name: string]: unknown;
  };
  assert.deepEqual({ status, delivered, failed }, { status: 'done', delivered: 8, failed: 0 });
}

/** A trace arrives with each event that was published with one. */
function assertTraces({ receiver, known }: EarlierStore): void {
  const published = new Set(Object.values(known.events).flat());
  const requests = receiver.requests.filter(({ headers }) =>
    published.has(headers['webhook-id'] ?? ''),
  );
  const traced = new Set(known.traced);
  for (const { headers } of requests) {
    const trace = headers['traceparent']?.split('-')[1];
    const id = headers['webhook-id'] ?? '';
    assert.equal(trace, traced.has(id) ? '0af7651916cd43dd8448eb211c80319c' : undefined, id);
  }
  assert.ok(requests.some(({ headers }) => headers['traceparent'] !== undefined));
}

/** Only what fails from now on raises an alert. */
async function assertAlerts(store: EarlierStore): Promise<void> {
  const { receiver, known, send } = store;
  const former = receiver.respond;
  receiver.respond = (wire, request) =>
    request.path === '/plain' ? reply(404)(wire, request) : former(wire, request);
  const event = { type: 't.plain', data: { object: {} } };
  assert.equal((await send('POST', '/events', [event])).status, 202);
  const failing = (): unknown[] =>
    receiver.requests
      .filter(({ path }) => path === '/alerts')
      .map(({ body }) => JSON.parse(body) as Alert)
      .filter(({ alert, tenant }) => alert === 'delivery_failures' && tenant === 'main')
      .map(({ stream }) => stream?.id);
  await waitFor('the alert', () => failing().includes(known.streams['plain']));
  assert.deepEqual(failing(), [known.streams['plain']]);
}

interface Alert {
  readonly alert: string;
  readonly tenant: string;
  readonly stream?: { readonly id: string };
}
