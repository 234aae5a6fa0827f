import { expectBody, publishAll, statsOf, type Leat, type StreamBody } from './api-client.ts';
import { createEventSource, type EventSource } from './console-events.ts';
import type { ConsoleReceivers } from './console-receivers.ts';
import { consoleStream, type StreamKey, streamKeys } from './console-streams.ts';
import { waitFor } from './wait.ts';

/** An installation with much to see, made through the public API with real receivers. */

/** Settings of a service that is filled: its retries are quick. */
export const consoleSettings = { LEAT_RETRY_DELAYS_MS: '100,200,400' } as const;

export interface FillOptions {
  readonly receivers: ConsoleReceivers;
  /** The same seed makes the same content; ids that the service makes differ. */
  readonly seed?: number;
  /** Open failures of the largest group. */
  readonly largestGroup?: number;
  /** Streams that were created before; absent to create them. */
  readonly streams?: ConsoleData['streams'] | undefined;
  readonly progress?: (text: string) => void;
}

/** What a test needs to go to a page directly. */
export interface ConsoleData {
  /** Ids of event streams. */
  readonly streams: Readonly<Record<StreamKey, string>>;
  /** Ids of events. */
  readonly events: {
    /** Delivered to some streams, failed on another one. */
    readonly order: string;
    /** One of the largest group of failures. */
    readonly largestGroup: string;
    /** Waits behind the failure of another one with its key. */
    readonly blocked: string;
    /** The failure that it waits for. */
    readonly blocking: string;
    /** Waits for its next attempt. */
    readonly retrying: string;
    readonly skipped: string;
    readonly dismissed: string;
  };
  readonly redeliveries: { readonly running: string; readonly finished: string };
  readonly dismissal: string;
  /** One of `billing` that is over, one of `analytics-replica` that runs. */
  readonly replays: { readonly finished: string; readonly running: string };
  readonly users: Readonly<Record<string, string>>;
  readonly roles: Readonly<Record<string, string>>;
  readonly clients: Readonly<Record<string, string>>;
  readonly apis: Readonly<Record<string, string>>;
  /** Open failures of the largest group. */
  readonly largestGroup: number;
}

/** Creates the event streams. */
export async function createConsoleStreams(
  leat: Leat,
  receivers: ConsoleReceivers,
  startFrom: Partial<Readonly<Record<StreamKey, string>>> = {},
): Promise<ConsoleData['streams']> {
  const ids: Partial<Record<StreamKey, string>> = {};
  for (const key of streamKeys) {
    const from = startFrom[key];
    const body = {
      ...consoleStream(key, receivers),
      ...(from === undefined ? {} : { start_from: from }),
    };
    const { id } = await expectBody<StreamBody>(201, leat.send('POST', streamsPath, body));
    ids[key] = id;
  }
  return ids as Record<StreamKey, string>;
}

const streamsPath = '/api/v2/event-streams';

/** Fills a running service, and waits until all of it has its state. */
export async function fillConsole(
  leat: Leat,
  { receivers, seed = 1, largestGroup = 1204, progress = () => undefined, streams }: FillOptions,
): Promise<ConsoleData> {
  progress('event streams');
  const ids = streams ?? (await createConsoleStreams(leat, receivers));
  const source = createEventSource(seed);
  const waitForEnded = await createWaitForEnded(leat, Object.values(ids));
  const filling: Filling = { leat, receivers, ids, source, largestGroup, waitForEnded };
  progress('access');
  const access = await fillAccess(leat);
  progress('deliveries');
  const order = await fillDelivered(filling);
  progress('failures');
  const [{ first }, ordered, retrying] = await Promise.all([
    fillLargestGroup(filling),
    fillOrdered(filling),
    fillRetrying(filling),
    fillCauses(filling),
    fillDisabled(filling),
  ]);
  progress('past actions');
  const [dismissal, redeliveries, replays, skipped] = await Promise.all([
    fillDismissal(filling),
    fillRedeliveries(filling),
    fillReplays(filling),
    fillSkipped(filling),
    fillInspectors(filling),
  ]);
  await fillStates(filling);
  return {
    streams: ids,
    ...access,
    events: {
      order,
      largestGroup: first,
      ...ordered,
      retrying,
      skipped,
      dismissed: dismissal.event,
    },
    dismissal: dismissal.id,
    redeliveries,
    replays,
    largestGroup,
  };
}

interface Filling {
  readonly leat: Leat;
  readonly receivers: ConsoleReceivers;
  readonly ids: ConsoleData['streams'];
  readonly source: EventSource;
  readonly largestGroup: number;
  readonly waitForEnded: WaitForEnded;
}

// Access

type Access = Pick<ConsoleData, 'users' | 'roles' | 'clients' | 'apis'>;

const orders = 'https://orders.acme.example/';

async function fillAccess(leat: Leat): Promise<Access> {
  const post = async <T>(path: string, body: object): Promise<T> =>
    expectBody<T>(201, leat.send('POST', `/api/v2${path}`, body));
  const scopes = ['read:orders', 'write:orders', 'refund:orders', 'read:stock'].map((value) => ({
    value,
    description: `May ${value.replace(':', ' ')}`,
  }));
  const api = await post<{ id: string }>('/resource-servers', {
    identifier: orders,
    name: 'Orders API',
    scopes,
    enforce_policies: true,
    token_lifetime: 3600,
  });
  const clients: Record<string, string> = {};
  for (const name of ['Checkout', 'Warehouse worker', 'Reporting (read only)']) {
    const { client_id: id } = await post<{ client_id: string }>('/clients', { name });
    clients[name] = id;
    const scope = name === 'Checkout' ? ['create:events'] : ['read:event_streams', 'read:logs'];
    const audience = name === 'Warehouse worker' ? orders : await systemAudience(leat);
    await post('/client-grants', {
      client_id: id,
      audience,
      scope: audience === orders ? ['read:orders', 'read:stock'] : scope,
    });
  }
  const roles: Record<string, string> = {};
  for (const [name, permissions] of [
    ['Support', ['read:orders']],
    ['Shift lead', ['read:orders', 'write:orders', 'read:stock']],
    ['Refunds – Rückerstattung', ['refund:orders']],
  ] as const) {
    const { id } = await expectBody<{ id: string }>(
      200,
      leat.send('POST', '/api/v2/roles', { name, description: `Role of ${name}` }),
    );
    roles[name] = id;
    const listed = permissions.map((permission) => ({
      resource_server_identifier: orders,
      permission_name: permission,
    }));
    await expectBody(
      201,
      leat.send('POST', `/api/v2/roles/${id}/permissions`, { permissions: listed }),
    );
  }
  const users: Record<string, string> = {};
  for (const user of usersOfAcme) {
    const body = {
      ...user,
      connection: 'Username-Password-Authentication',
      password: 'correct-horse-battery',
    };
    users[user.email] = (await post<{ user_id: string }>('/users', body)).user_id;
  }
  const support = roles['Support'] ?? '';
  const members = { users: Object.values(users).slice(0, 2) };
  await expectBody(200, leat.send('POST', `/api/v2/roles/${support}/users`, members));
  await fillAuditLog(leat, clients['Warehouse worker'] ?? '', users['leaver@example.com'] ?? '');
  return { users, roles, clients, apis: { orders: api.id } };
}

const usersOfAcme = [
  { email: 'ada@example.com', name: 'Ada Lovelace', email_verified: true },
  { email: 'zoe.mueller@example.org', name: 'Zoë Müller-Lüdenscheidt', nickname: 'zoë' },
  { email: 'xiaoming@example.cn', name: '王小明', user_metadata: { language: 'zh' } },
  { email: 'alexandros@example.gr', name: 'Αλέξανδρος Παπαδόπουλος' },
  { email: 'lukasz@example.pl', name: 'Łukasz Żółć', blocked: true },
  {
    email:
      'a.person.with.a.very.long.address.that.does.not.fit@subdomain.of.a.long.domain.example.com',
    app_metadata: { plan: 'pro', flags: { beta: true, limits: { places_max: 25 } } },
  },
  { email: 'leaver@example.com', name: 'Somebody who left' },
];

/** Refused and deleting requests, of which the log of requests has entries of other kinds. */
async function fillAuditLog(leat: Leat, client: string, leaver: string): Promise<void> {
  await expectBody(200, leat.send('POST', `/api/v2/clients/${client}/rotate-secret`));
  await expectBody(204, leat.send('DELETE', `/api/v2/users/${encodeURIComponent(leaver)}`));
  const wrong = { client_id: client, client_secret: 'a wrong secret', audience: orders };
  const refused = { grant_type: 'client_credentials', ...wrong };
  await expectBody(401, leat.send('POST', '/oauth/token', refused, { authorization: '' }));
  await expectBody(400, leat.send('POST', '/api/v2/roles', { name: '' }));
  const nowhere = `${streamsPath}/est_0000000000000000000000`;
  await expectBody(404, leat.send('PATCH', nowhere, { name: 'unknown' }));
}

async function systemAudience(leat: Leat): Promise<string> {
  const apis = await expectBody<{ is_system: boolean; identifier: string }[]>(
    200,
    leat.send('GET', '/api/v2/resource-servers'),
  );
  return apis.find((api) => api.is_system)?.identifier ?? '';
}

// Deliveries

/** Sends events to the streams without failures; returns the id of an order. */
async function fillDelivered({ leat, source, ids, waitForEnded }: Filling): Promise<string> {
  const [order = ''] = await publishAll(leat, [
    ...source.many('order.paid', 31),
    ...source.many('order.cancelled', 7),
    ...source.many('payment.captured', 40),
    ...source.many('invoice.issued', 120),
    ...source.many('invoice.voided', 6),
    ...source.many('subscription.started', 60),
    // More than the stream sends within days.
    ...source.many('product.updated', 900),
  ]);
  await waitForEnded(ids['audit-archive'], 200);
  await waitForEnded(ids['warehouse-orders'], 38);
  const rotate = { overlap_seconds: 86_400 };
  const path = `${streamsPath}/${ids.billing}/signing-secret/rotate`;
  await expectBody(200, leat.send('POST', path, rotate));
  return order;
}

/** Several groups on a stream that still delivers, so that it is not disabled. */
async function fillLargestGroup({
  leat,
  source,
  ids,
  largestGroup,
  waitForEnded,
}: Filling): Promise<{ first: string }> {
  const id = ids['crm-contacts'];
  const bad = { email: null };
  const chunk = 200;
  let first = '';
  let ended = 0;
  for (let left = largestGroup - 3; left > 0; left -= chunk) {
    const events = source.many('contact.updated', Math.min(left, chunk), bad);
    const [head = ''] = await publishAll(leat, events);
    first ||= head;
    ended += events.length;
    // The next success comes after these failures, and before those that follow.
    await waitForEnded(id, ended);
    await publishAll(leat, [source.next('contact.updated', { email: 'ada@example.com' })]);
    ended += 1;
    await waitForEnded(id, ended);
  }
  await publishAll(leat, [
    ...source.many('contact.deleted', 17),
    ...source.many('contact.merged', 5),
    ...source.many('contact.updated', 3, bad),
  ]);
  await waitForEnded(id, ended + 25);
  return { first };
}

async function fillCauses({ leat, source, ids, waitForEnded }: Filling): Promise<void> {
  const causes = [
    ['fraud-scoring', 'payment.reviewed', 4],
    ['sms-gateway', 'parcel.delayed', 12],
    ['label-printer', 'parcel.packed', 9],
    ['loyalty-points', 'loyalty.earned', 6],
    ['tax-reports', 'tax.reported', 2],
    ['mainframe-bridge', 'ledger.booked', 3],
    ['intranet-wiki', 'article.published', 1],
    ['data-lake', 'payment.settled', 8],
  ] as const;
  await publishAll(
    leat,
    causes.flatMap(([, type, count]) => source.many(type, count)),
  );
  for (const [key, , count] of causes) await waitForEnded(ids[key], count);
}

/** A failure that blocks its key, and a stream that goes on with the others. */
async function fillOrdered({
  leat,
  source,
  ids,
  waitForEnded,
}: Filling): Promise<Pick<ConsoleData['events'], 'blocked' | 'blocking'>> {
  const id = ids['inventory-sync'];
  const sku = 'sku-4711';
  const [blocking = ''] = await publishAll(leat, [
    source.next('stock.counted', { sku, quantity: -1 }),
  ]);
  await waitForEnded(id, 1);
  const [blocked = ''] = await publishAll(leat, [
    ...source.many('stock.counted', 6, { sku }),
    ...source.many('stock.counted', 20),
  ]);
  await waitForEnded(id, 21);
  return { blocked, blocking };
}

/** Deliveries that wait for their next attempt, and failures of a stream that recovered. */
async function fillRetrying({ leat, source, ids, waitForEnded }: Filling): Promise<string> {
  const [retrying = ''] = await publishAll(leat, source.many('parcel.sent', 14));
  await waitForHealth(leat, ids['shipping-notifications'], ({ retrying: n }) => n >= 14);
  await publishAll(leat, source.many('subscription.renewed', 3, { plan: 'retired' }));
  await waitForEnded(ids['subscription-renewals'], 3);
  await publishAll(leat, source.many('subscription.renewed', 30, { plan: 'pro' }));
  await waitForEnded(ids['subscription-renewals'], 33);
  return retrying;
}

/** Streams that are disabled, by their failures and by hand, with events that wait. */
async function fillDisabled({ leat, source, ids }: Filling): Promise<void> {
  const byFailures = ids['partner-feed-acme'];
  await publishAll(leat, source.many('stock.changed', 520));
  await waitForHealth(leat, byFailures, ({ state }) => state === 'disabled');
  await patch(leat, ids['legacy-erp'], { status: 'disabled' });
  await publishAll(leat, [
    ...source.many('stock.changed', 73),
    ...source.many('invoice.issued', 18),
  ]);
  await waitForHealth(leat, byFailures, ({ disabled }) => (disabled?.waiting_events ?? 0) >= 73);
}

// Past actions

async function fillDismissal({ leat, ids }: Filling): Promise<{ id: string; event: string }> {
  const selection = { event_stream_ids: [ids['crm-contacts']], event_types: ['contact.merged'] };
  const query = `event_stream_ids=${ids['crm-contacts']}&event_types=contact.merged`;
  const { deliveries } = await expectBody<{ deliveries: { id: string }[] }>(
    200,
    leat.send('GET', `/api/v2/deliveries?${query}`),
  );
  const { id } = await expectBody<{ id: string }>(
    202,
    leat.send('POST', '/api/v2/dismissals', selection),
  );
  await waitForDone(leat, `/api/v2/dismissals/${id}`);
  return { id, event: deliveries[0]?.id ?? '' };
}

async function fillRedeliveries({
  leat,
  source,
  ids,
  receivers,
  waitForEnded,
}: Filling): Promise<ConsoleData['redeliveries']> {
  const id = ids['nightly-export'];
  // Enough that the newest page of failures stays as it is for the ten minutes that a crawl may take, and
  // fewer than the largest group has by default.
  const count = 130;
  await publishAll(leat, source.many('export.row', count));
  await waitForEnded(id, count);
  const redeliver = async (body: object): Promise<string> => {
    const started = await expectBody<{ id: string }>(
      202,
      leat.send('POST', '/api/v2/redeliveries', { event_stream_ids: [id], ...body }),
    );
    return started.id;
  };
  const { deliveries } = await expectBody<{ deliveries: { id: string }[] }>(
    200,
    leat.send('GET', `/api/v2/deliveries?event_stream_ids=${id}&take=20`),
  );
  receivers.repair('/exports');
  const finished = await redeliver({ event_ids: deliveries.map((delivery) => delivery.id) });
  await waitForDone(leat, `/api/v2/redeliveries/${finished}`);
  await patch(leat, id, { delivery: { per_second: 0.1 } });
  const running = await redeliver({ error_codes: ['http_5xx'] });
  return { running, finished };
}

async function fillReplays({ leat, ids }: Filling): Promise<ConsoleData['replays']> {
  const replay = async (stream: string): Promise<string> => {
    const body = { date_from: '2020-01-01T00:00:00Z' };
    const path = `${streamsPath}/${stream}/replay`;
    return (await expectBody<{ id: string }>(202, leat.send('POST', path, body))).id;
  };
  const finished = await replay(ids.billing);
  await waitForDone(leat, `${streamsPath}/${ids.billing}/replay/${finished}`);
  const running = await replay(ids['analytics-replica']);
  return { finished, running };
}

async function fillSkipped({ leat, source, ids, waitForEnded }: Filling): Promise<string> {
  const id = ids['returns-desk'];
  await publishAll(leat, source.many('return.requested', 5));
  await waitForEnded(id, 5);
  await patch(leat, id, { status: 'disabled' });
  const [skipped = ''] = await publishAll(leat, source.many('return.requested', 90));
  await patch(leat, id, { status: 'enabled', resume: 'latest' });
  await publishAll(leat, source.many('return.requested', 12));
  await waitForEnded(id, 17);
  return skipped;
}

async function fillInspectors({ leat, source, ids, waitForEnded }: Filling): Promise<void> {
  const flaky = ids['inspector-flaky'];
  const answer = { status: 503, times: 4 };
  await expectBody(200, leat.send('PUT', `${streamsPath}/${flaky}/received/answer`, answer));
  await publishAll(leat, source.many('demo.flaky', 6));
  await waitForEnded(flaky, 6);
  await expectBody(
    202,
    leat.send('POST', `${streamsPath}/${flaky}/test`, { event_type: 'demo.flaky' }),
  );
}

/** What the other steps must not be affected by. */
async function fillStates({ leat, ids }: Filling): Promise<void> {
  const reason = 'Provider migration until Monday, ask Zoë before you resume';
  await expectBody(
    200,
    leat.send('POST', `${streamsPath}/${ids['email-campaigns']}/pause`, { reason }),
  );
  // Counts in memory are written every few seconds.
  await waitFor('the counts of the last minutes', async () => {
    const { data } = await expectBody<{ data: { delivered: number }[] }>(
      200,
      leat.send('GET', '/api/v2/stats/deliveries?bucket=minute'),
    );
    return data.some(({ delivered }) => delivered > 0);
  });
}

// Waiting

interface Health {
  readonly state: string;
  readonly retrying: number;
  readonly disabled: { readonly waiting_events: number } | null;
}

async function waitForHealth(
  leat: Leat,
  id: string,
  done: (health: Health) => boolean,
): Promise<void> {
  let seen: Health | undefined;
  await waitFor(
    `the health of ${id}`,
    async () => {
      seen = await expectBody<Health>(200, leat.send('GET', `${streamsPath}/${id}/health`));
      return done(seen);
    },
    { progress: () => seen },
  );
}

/** Waits until so many deliveries of a stream have ended since it is being filled. */
type WaitForEnded = (id: string, total: number) => Promise<void>;

async function createWaitForEnded(leat: Leat, ids: readonly string[]): Promise<WaitForEnded> {
  const endedOf = async (id: string): Promise<number> => {
    const { delivered, failed } = await statsOf(leat, id);
    return delivered + failed;
  };
  const before = new Map<string, number>();
  for (const id of ids) before.set(id, await endedOf(id));
  return async (id, total) => {
    let seen = 0;
    const done = async (): Promise<boolean> => {
      seen = (await endedOf(id)) - (before.get(id) ?? 0);
      return seen >= total;
    };
    await waitFor(`${total} ended deliveries of ${id}`, done, { progress: () => seen });
  };
}

async function waitForDone(leat: Leat, path: string): Promise<void> {
  let seen: unknown;
  const done = async (): Promise<boolean> => {
    const shown = await expectBody<{ status: string }>(200, leat.send('GET', path));
    seen = shown;
    return shown.status === 'done';
  };
  await waitFor(`the end of ${path}`, done, { progress: () => seen });
}

async function patch(leat: Leat, id: string, change: object): Promise<void> {
  await expectBody(200, leat.send('PATCH', `${streamsPath}/${id}`, change));
}
