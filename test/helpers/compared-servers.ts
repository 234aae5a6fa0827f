import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'undici';
import { openApiFixture, type ApiFixture } from '../api/fixture.ts';
import { createPrng } from '../simulation/prng.ts';
import type { Engine } from '../store/contract/engine.ts';
import { waitFor } from './wait.ts';
import { createRandomRequests, groupOf, type RandomRequest, type Seen } from './random-requests.ts';
import type { Store } from '../../src/store/port/store.ts';

/** One of the servers that are compared. */
export interface Side {
  readonly engine: Engine;
  /** Changes the store, for a difference that has to be found. */
  readonly around?: (store: Store) => Store;
}

/** A request that the servers answered differently. */
export interface Difference {
  readonly request: string;
  readonly answers: readonly string[];
}

/** What came of the comparison. */
export interface Comparison {
  /** The first difference. */
  readonly difference: Difference | undefined;
  /** Requests by status. */
  readonly statuses: ReadonlyMap<number, number>;
  /** Operations that succeeded at least once. */
  readonly succeeded: ReadonlySet<string>;
}

/**
 * Sends the same `count` random requests to two servers, one after the other, and compares status, headers and
 * body. Ids, secrets and times are the same on both sides: they come from one seed and a clock that stands still.
 */
export async function compareServers(
  seed: number,
  count: number,
  sides: readonly [Side, Side],
): Promise<Comparison> {
  const [first, second] = sides;
  // One after the other: the second one has the signing key of the first.
  const servers = [await openServer(seed, first)];
  try {
    servers.push(await openServer(seed, second));
    return await compare(seed, count, servers);
  } finally {
    await Promise.all(servers.map(({ close }) => close()));
  }
}

interface Server {
  readonly fixture: ApiFixture;
  readonly client: Client;
  close(): Promise<void>;
}

async function openServer(seed: number, { engine, around }: Side): Promise<Server> {
  const prng = createPrng(seed, 'ids');
  const random = (length: number): Buffer =>
    Buffer.from(Array.from({ length }, () => prng.between(0, 255)));
  const open = (): ReturnType<Engine['open']> => engine.open();
  const fixture = await openApiFixture(
    {},
    { random, open, ...(around === undefined ? {} : { around }) },
  );
  const client = new Client(`http://127.0.0.1:${fixture.port}`);
  return {
    fixture,
    client,
    close: async () => {
      await client.destroy();
      await fixture.close();
    },
  };
}

async function compare(
  seed: number,
  count: number,
  servers: readonly Server[],
): Promise<Comparison> {
  const [server] = servers;
  if (server === undefined) throw new Error('There is no server.');
  const { token, auth } = server.fixture;
  const seen: Seen = new Map();
  // Without them no request succeeds any more.
  const kept = new Set([auth.manager.clientId]);
  for (const { fixture } of servers)
    for (const path of ['/client-grants', '/resource-servers'])
      for (const [, id = ''] of (await fixture.send('GET', path)).text.matchAll(/"id":"([^"]+)"/g))
        kept.add(id);
  const next = createRandomRequests(createPrng(seed, 'requests'), token, seen);
  const statuses = new Map<number, number>();
  const succeeded = new Set<string>();
  for (let done = 0; done < count; done += 1) {
    const request = next();
    const responses = await responsesTo(servers, request);
    if (works.has(request.operationId)) await Promise.all(servers.map(workDone));
    const [first, second] = responses.map(textOf);
    const [{ status, body } = { status: 0, body: '' }] = responses;
    if (first !== second || status >= 500) {
      return { difference: differenceOf(request, responses), statuses, succeeded };
    }
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (status < 300) {
      succeeded.add(request.operationId);
      const group = groupOf(request.path.replace('/api/v2', ''));
      if (request.method === 'DELETE') forget(seen, request.path);
      else learn(seen, kept, group, body);
    }
    // Longer than what was read for one request serves another.
    if (done % 25 === 24) for (const { fixture } of servers) fixture.auth.clock.move(readAgainMs);
  }
  return { difference: undefined, statuses, succeeded };
}

/** Operations that read what is recorded a moment after its request: they are asked again while they differ. */
const later: ReadonlySet<string> = new Set(['listLogs', 'getLog']);

async function responsesTo(servers: readonly Server[], request: RandomRequest): Promise<Answer[]> {
  const ask = (): Promise<Answer[]> => Promise.all(servers.map((each) => send(each, request)));
  const isAlike = ([first, second]: Answer[]): boolean =>
    first !== undefined && second !== undefined && textOf(first) === textOf(second);
  let responses = await ask();
  for (
    let left = 100;
    left > 0 && later.has(request.operationId) && !isAlike(responses);
    left -= 1
  ) {
    await sleep(10);
    responses = await ask();
  }
  return responses;
}

/** Operations that leave work, whose progress their responses tell. */
const works: ReadonlySet<string> = new Set([
  'dismissEventDeliveries',
  'reopenDismissal',
  'startRedelivery',
]);

/** Resolves when nothing is left to do: the next request meets what was done. */
async function workDone({ fixture }: Server): Promise<void> {
  const { dismissals, redeliveries } = fixture.auth.store;
  await waitFor('the end of the work', async () => {
    const left = await Promise.all([dismissals.unfinished(1), redeliveries.unfinished(1)]);
    return left.flat().length === 0;
  });
}

interface Answer {
  readonly status: number;
  readonly headers: string;
  readonly body: string;
}

async function send({ client }: Server, request: RandomRequest): Promise<Answer> {
  const { method, path, headers, body } = request;
  const response = await client.request({
    method,
    path,
    headers: { host: 'leat.example.com', ...headers },
    ...(body === undefined ? {} : { body }),
  });
  const isLive = response.headers['content-type'] === 'text/event-stream';
  // A live body has no end.
  if (isLive) response.body.destroy();
  const text = isLive ? '' : await response.body.text();
  return {
    status: response.statusCode,
    headers: JSON.stringify(headersOf(response.headers)),
    body: comparable(request, text),
  };
}

/** They tell when, on which connection, and how long the body is or its hash, which is compared. */
const otherHeaders: ReadonlySet<string> = new Set([
  'date',
  'connection',
  'keep-alive',
  'etag',
  'content-length',
]);

function headersOf(headers: Readonly<Record<string, unknown>>): unknown[] {
  return Object.entries(headers)
    .filter(([name]) => !otherHeaders.has(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Replaces what is made by the crypto of Node, public keys and their ids, and which engine it is and its size. */
function comparable({ operationId }: RandomRequest, text: string): string {
  const settled = works.has(operationId)
    ? text.replaceAll(
        /"(?:status|dismissed|skipped|reopened|delivered|failed|remaining)":[^,}]+/g,
        '"…":"…"',
      )
    : text;
  return settled
    .replaceAll(/"(?:kid|x|n)":"[\w-]+"/g, '"key":"…"')
    .replaceAll(/"as_of":"[^"]*"/g, '"as_of":"…"')
    .replaceAll(/"store":\{"engine":[^}]*\}/g, '"store":"…"');
}

function textOf({ status, headers, body }: Answer): string {
  return `${status} ${headers} ${body}`;
}

function differenceOf(request: RandomRequest, answers: readonly Answer[]): Difference {
  const { method, path, headers, body } = request;
  const type = headers['content-type'] ?? '';
  return {
    request: `${method} ${path} ${type} ${JSON.stringify(body?.toString('utf8'))}`,
    answers: answers.map(textOf),
  };
}

/** Longer than what was read for one request serves others. */
const readAgainMs = 4000;
/** Of each kind; the newest ones. */
const seenMax = 12;

/** Remembers ids, names and cursors of a response. */
function learn(seen: Seen, kept: ReadonlySet<string>, group: string, body: string): void {
  const texts = seen.get(group) ?? [];
  const pattern = /"(?:id|[a-z]+_id|identifier|next|offset)":"((?:[^"\\]|\\.)*)"/g;
  for (const [, text = ''] of body.matchAll(pattern)) {
    const value = JSON.parse(`"${text}"`) as string;
    if (!kept.has(value) && !texts.includes(value)) texts.push(value);
  }
  seen.set(group, texts.slice(-seenMax));
}

/** Forgets what was deleted. */
function forget(seen: Seen, path: string): void {
  const last = decodeURIComponent(path.replace(/\?.*/, '').split('/').at(-1) ?? '');
  for (const texts of seen.values()) {
    const index = texts.indexOf(last);
    if (index !== -1) texts.splice(index, 1);
  }
}
