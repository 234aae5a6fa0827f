/**
 * `npm run demo`: shows delivery, failure and redelivery in a few seconds, on a temporary
 * embedded store, with a receiver on loopback. Each request is printed as its curl command. With
 * `--keep` the service stays up afterwards.
 */
import { once } from 'node:events';
import type { Webhook } from '../cli/webhook.ts';
import { systemClock, systemRandom } from '../clock.ts';
import { sleep } from '../core/sleep.ts';
import { type LocalReceiver, startReceiver } from './dev/receiver.ts';
import { createFolder, removeFolder, startThrowaway, type Throwaway } from './dev/throwaway.ts';

async function main(): Promise<void> {
  const folder = await createFolder();
  const requests = { accepted: [] as unknown[], refused: 0 };
  const receiver = await startReceiver({
    clock: systemClock,
    onWebhook: ({ status, event }: Webhook) => {
      if (status === 503) requests.refused++;
      else requests.accepted.push(event);
    },
    note: () => {},
  });
  const throwaway = await startThrowaway(
    { clock: systemClock, random: systemRandom, stderr: process.stderr, version: 'demo' },
    { folder },
  );
  try {
    await runDemo(throwaway, { receiver, requests });
    if (process.argv.includes('--keep')) await keep(throwaway, receiver);
  } finally {
    await throwaway.service.stop();
    receiver.close();
    await removeFolder(folder);
  }
}

interface Received {
  readonly receiver: LocalReceiver;
  readonly requests: {
    /** Events of the requests that got a 204. */
    readonly accepted: readonly unknown[];
    /** Number of the others. */
    readonly refused: number;
  };
}

async function runDemo(
  { service, client }: Throwaway,
  { receiver, requests }: Received,
): Promise<void> {
  const http = createHttp(service.url);

  printStep('A token for the management API (OAuth client credentials)');
  const token = await http('POST', '/oauth/token', {
    grant_type: 'client_credentials',
    client_id: client.id,
    client_secret: client.secret,
    audience: '/api/v2/',
  });
  http.useToken(String(token['access_token']));

  printStep('An event stream that subscribes to user.created, with our receiver as its webhook');
  const stream = await http('POST', '/api/v2/event-streams', {
    name: 'crm',
    subscriptions: [{ event_type: 'user.created' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: `${receiver.url}/`,
        webhook_authorization: { method: 'bearer', token: 'token-of-the-receiver' },
      },
    },
  });
  const deliveries = `/api/v2/event-streams/${String(stream['id'])}/deliveries`;

  printStep('A user is created …');
  await createUser(http, 'ada@example.com');
  await waitUntil('the event to arrive', () => requests.accepted.length === 1);
  note('… and its event arrives at the webhook:');
  show(requests.accepted[0]);
  await http('GET', deliveries);

  printStep('The webhook breaks: from now on it returns 503. Another user is created');
  receiver.isBroken = true;
  await createUser(http, 'grace@example.com');
  await waitUntil(
    'four attempts (at once, then after ¼, ½ and 1 s; without settings after 1, 2 and 4 s)',
    () => requests.refused === 4,
  );
  await waitUntil('the failure to be recorded', async () => {
    const list = await http.quietly('GET', deliveries);
    return Array.isArray(list) && list.length === 1;
  });
  note('The failure is listed with everything needed to understand it:');
  const [failure] = (await http('GET', deliveries)) as unknown as [{ id: string }];

  printStep('The webhook is repaired, and the failed event is sent again');
  receiver.isBroken = false;
  await http('POST', `/api/v2/event-streams/${String(stream['id'])}/redeliver/${failure.id}`);
  await waitUntil('the event to arrive', () => requests.accepted.length === 2);
  note(`It arrived with the same id ${failure.id}:`);
  show(requests.accepted[1]);

  printStep('No failure is left');
  await waitUntil('the record to be removed', async () => {
    const list = await http.quietly('GET', deliveries);
    return Array.isArray(list) && list.length === 0;
  });
  await http('GET', deliveries);
}

async function createUser(http: Http, email: string): Promise<void> {
  await http('POST', '/api/v2/users', {
    email,
    password: 'correct-horse-battery',
    connection: 'Username-Password-Authentication',
  });
}

async function keep({ service, client }: Throwaway, receiver: LocalReceiver): Promise<void> {
  process.stdout.write(
    `\nLeat stays up at ${service.url} (client id ${client.id}, secret ${client.secret});\n` +
      `the receiver is ${receiver.url}. Press Ctrl-C to end.\n`,
  );
  await once(process, 'SIGINT');
}

// Requests, shown as curl commands

interface Http {
  (method: string, path: string, body?: object): Promise<Record<string, unknown>>;
  /** Sends a request without printing it. */
  quietly(method: string, path: string, body?: object): Promise<unknown>;
  useToken(token: string): void;
}

function createHttp(base: string): Http {
  let token: string | undefined;
  const send = async (method: string, path: string, body?: object): Promise<Response> =>
    fetch(base + path, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const sendAndPrint = async (
    method: string,
    path: string,
    body?: object,
  ): Promise<Record<string, unknown>> => {
    write(`\n  ${curl(method, base + path, body, token !== undefined)}\n`);
    const response = await send(method, path, body);
    const responseBody = (await response.json()) as Record<string, unknown>;
    write(`  ${bold(String(response.status))} `);
    show(shortened(responseBody));
    if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}`);
    return responseBody;
  };
  return Object.assign(sendAndPrint, {
    quietly: async (method: string, path: string, body?: object): Promise<unknown> =>
      (await send(method, path, body)).json(),
    useToken: (value: string) => {
      token = value;
    },
  });
}

function curl(method: string, url: string, body: object | undefined, hasToken: boolean): string {
  const parts = [`curl ${method === 'GET' ? '' : `-X ${method} `}${url}`];
  if (hasToken) parts.push(`-H "Authorization: Bearer $TOKEN"`);
  if (body !== undefined) {
    parts.push(`-H 'Content-Type: application/json'`, `-d '${JSON.stringify(body)}'`);
  }
  return parts.join(' \\\n    ');
}

/** Truncates the access token of a response body. */
function shortened(body: Record<string, unknown>): unknown {
  const token = body['access_token'];
  return typeof token === 'string' ? { ...body, access_token: `${token.slice(0, 12)}…` } : body;
}

// Output

let steps = 0;

function printStep(title: string): void {
  steps++;
  write(`\n${bold(`${steps}. ${title}`)}\n`);
}

function note(text: string): void {
  write(`\n  ${text}\n  `);
}

function show(value: unknown): void {
  write(`${JSON.stringify(value, undefined, 2).replaceAll('\n', '\n  ')}\n`);
}

function bold(text: string): string {
  return process.stdout.isTTY ? `\x1b[1m${text}\x1b[0m` : text;
}

function write(text: string): void {
  process.stdout.write(text);
}

/** Waits until a condition holds, with the seconds on a terminal; throws after 20 s. */
async function waitUntil(condition: string, done: () => boolean | Promise<boolean>): Promise<void> {
  const startedMs = systemClock.elapsedMs();
  const seconds = (): number => (systemClock.elapsedMs() - startedMs) / 1000;
  if (!process.stdout.isTTY) write(`\n  waiting for ${condition} …\n`);
  while (!(await done())) {
    if (seconds() > 20) throw new Error(`timed out after 20 s of waiting for ${condition}`);
    if (process.stdout.isTTY) write(`\r  waiting for ${condition} … ${seconds().toFixed(1)} s`);
    await sleep(systemClock, 100);
  }
  if (process.stdout.isTTY) write('\r\x1b[K');
}

await main();
