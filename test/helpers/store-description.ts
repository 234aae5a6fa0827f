/**
 * Reads all that the management API shows of a tenant, request by request, as a description of its store:
 * two programs that show the same of one store give equal descriptions.
 */

/** The body of each response, by its path. */
export type Description = Readonly<Record<string, unknown>>;

/** Requests a path below `/api/v2`, or `/.well-known`, and returns the body. */
export type Get = (path: string) => Promise<unknown>;

type Item = Readonly<Record<string, unknown>>;

interface Range {
  /** Instants as in ISO 8601. */
  readonly from: string;
  readonly to: string;
  /** Dismissals are in no list. */
  readonly dismissals: readonly string[];
}

/** Describes a whole tenant in which nothing happens at present. */
export async function describeTenant(get: Get, range: Range): Promise<Description> {
  const description = { ...(await describeAccess(get, range)) } as Record<string, unknown>;
  const read = async (path: string): Promise<void> => {
    description[path] = withoutNow(await get(path));
  };
  const { from, to } = range;
  const dates = `date_from=${from}&date_to=${to}`;
  const { eventStreams } = description['/event-streams?take=100'] as {
    readonly eventStreams: readonly Item[];
  };
  for (const { id } of eventStreams) {
    const stream = `/event-streams/${String(id)}`;
    const parts = ['', '/signing-secret', '/health', `/stats?${dates}`];
    const lists = ['skipped', 'attempts', 'replays', 'deliveries'];
    parts.push(...lists.map((name) => `/${name}?take=100`));
    const stats = ['minute', 'hour', 'day'].map((bucket) => {
      const start = bucket === 'minute' ? new Date(Date.parse(to) - 3_600_000).toISOString() : from;
      return `event_stream_id=${String(id)}&bucket=${bucket}&date_from=${start}&date_to=${to}`;
    });
    const paths = [
      ...parts.map((part) => `${stream}${part}`),
      ...stats.map((query) => `/stats/deliveries?${query}`),
    ];
    await Promise.all(paths.map(read));
  }
  for (const status of ['failed', 'retrying']) {
    await readPages(get, `/deliveries?take=100&statuses=${status}`, description);
  }
  for (const id of range.dismissals) await read(`/dismissals/${id}`);
  const paths = ['/delivery-groups?take=100', '/redeliveries?take=100', '/overview'];
  for (const path of [...paths, '/stream-health?take=100']) await read(path);
  const events = await readPages(get, '/event-log?take=100', description);
  for (let index = 0; index < events.length; index += 16) {
    const some = events.slice(index, index + 16);
    await Promise.all(some.map((event) => read(`/event-log/${eventIdOf(event)}?take=100`)));
  }
  return description;
}

/** Describes who may do what in a tenant, and what has been done. */
export async function describeAccess(get: Get, { to }: Pick<Range, 'to'>): Promise<Description> {
  const description: Record<string, unknown> = {};
  const targets: string[] = [];
  const read = async (path: string): Promise<unknown> => {
    const body = withoutNow(await get(path));
    description[path] = body;
    return body;
  };
  const users = (await read('/users?per_page=100&sort=created_at:1')) as readonly Item[];
  targets.push(...users.map((user) => String(user['user_id'])));
  const streams = (await read('/event-streams?take=100')) as {
    readonly eventStreams: readonly Item[];
  };
  const ids = streams.eventStreams.map(({ id }) => String(id));
  targets.push(...ids);
  const lists = ['/clients', '/resource-servers', '/client-grants', '/roles'];
  for (const path of lists) {
    const items = (await read(`${path}?per_page=100`)) as readonly Item[];
    for (const item of items) {
      const id = String((path === '/clients' && item['client_id']) || item['id']);
      await read(`${path}/${encodeURIComponent(id)}`);
      targets.push(id);
    }
    if (path !== '/roles') continue;
    for (const { id } of items) {
      for (const part of ['permissions', 'users', 'clients']) {
        await read(`/roles/${String(id)}/${part}?per_page=100`);
      }
    }
  }
  for (const name of ['jwks', 'webhook-keys']) await read(`/.well-known/${name}.json`);
  await readPages(get, '/event-types?take=100', description);
  for (const page of [0, 1]) await read(`/logs?per_page=100&page=${page}&date_to=${to}`);
  for (const target of targets) {
    await read(`/logs?per_page=100&date_to=${to}&target=${encodeURIComponent(target)}`);
  }
  return description;
}

/** Returns what a request found, with the fields that an earlier program showed. */
export function onlyFieldsOf(shown: unknown, expected: unknown): unknown {
  if (Array.isArray(shown) && Array.isArray(expected)) {
    return shown.map((item, index) => onlyFieldsOf(item, expected[index]));
  }
  if (!isItem(shown) || !isItem(expected)) return shown;
  const fields = Object.keys(expected).filter((name) => name in shown);
  return Object.fromEntries(
    fields.map((name) => [name, onlyFieldsOf(shown[name], expected[name])]),
  );
}

/** Reads a list to its end; returns its items. */
async function readPages(
  get: Get,
  path: string,
  description: Record<string, unknown>,
): Promise<Item[]> {
  const items: Item[] = [];
  for (let next: string | undefined = '', number = 0; next !== undefined; number += 1) {
    const from: string = next === '' ? '' : `&from=${encodeURIComponent(next)}`;
    const { next: following, ...body } = (await get(`${path}${from}`)) as Item & { next?: string };
    description[number === 0 ? path : `${path} ${number}`] = withoutNow(body);
    items.push(...Object.values(body).flatMap((value) => (Array.isArray(value) ? value : [])));
    next = following;
  }
  return items;
}

/** Fields that say how long ago something was, or what is going on right now. */
const ofNow = new Set([
  'as_of',
  'seconds',
  'in_flight_seconds',
  'last_hour',
  'success_24h',
  'p95_24h_ms',
]);

function withoutNow(body: unknown): unknown {
  if (Array.isArray(body)) return body.filter((item) => !isUnseenType(item)).map(withoutNow);
  if (!isItem(body)) return body;
  // The examples of types of the program itself are made on request.
  const isExample = (name: string): boolean => name === 'sample' && body['catalogue'] === true;
  const fields = Object.entries(body).filter(([name]) => !ofNow.has(name) && !isExample(name));
  return Object.fromEntries(fields.map(([name, value]) => [name, withoutNow(value)]));
}

/** Whether it is a type of the program itself that nobody has published. */
function isUnseenType(item: unknown): boolean {
  return isItem(item) && item['catalogue'] === true && item['last_seen_at'] === null;
}

function eventIdOf(item: Item): string {
  const { event } = item;
  return isItem(event) ? String(event['id']) : '';
}

function isItem(value: unknown): value is Item {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
