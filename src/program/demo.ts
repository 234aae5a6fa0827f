/**
 * `npm run demo`: shows delivery, failure and redelivery in a few seconds, on a temporary
 * embedded store, with a receiver on loopback. Each request is printed as its curl command. With
 * `--keep` the service stays up afterwards.
 */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, systemRandom } from '../clock.ts';
import { readConfig } from '../config.ts';
import { openLog } from './log.ts';
import { startService, type Service } from './service.ts';
import { sleep } from '../core/sleep.ts';

const client = { id: 'demo', secret: 'demo-secret-demo-secret' };

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-demo-'));
  const receiver = await startReceiver();
  const service = await startDemoService(folder);
  try {
    await runDemo(service, receiver);
    if (process.argv.includes('--keep')) await keep(service, receiver);
  } finally {
    await service.stop();
    receiver.server.close();
    receiver.server.closeAllConnections();
    await rm(folder, { recursive: true, force: true });
  }
}

async function runDemo(service: Service, receiver: Receiver): Promise<void> {
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
        webhook_endpoint: receiver.url,
        webhook_authorization: { method: 'bearer', token: 'token-of-the-receiver' },
      },
    },
  });
  const deliveries = `/api/v2/event-streams/${String(stream['id'])}/deliveries`;

  printStep('A user is created …');
  await createUser(http, 'ada@example.com');
  await waitUntil('the event to arrive', () => receiver.accepted.length === 1);
  note('… and its event arrives at the webhook:');
  show(receiver.accepted[0]);
  await http('GET', deliveries);

  printStep('The webhook breaks: from now on it returns 503. Another user is created');
  receiver.broken = true;
  await createUser(http, 'grace@example.com');
  await waitUntil(
    'four attempts (at once, then after ¼, ½ and 1 s; without settings after 1, 2 and 4 s)',
    () => receiver.refused === 4,
  );
  await waitUntil('the failure to be recorded', async () => {
    const list = await http.quietly('GET', deliveries);
    return Array.isArray(list) && list.length === 1;
  });
  note('The failure is listed with everything needed to understand it:');
  const [failure] = (await http('GET', deliveries)) as unknown as [{ id: string }];

  printStep('The webhook is repaired, and the failed event is sent again');
  receiver.broken = false;
  await http('POST', `/api/v2/event-streams/${String(stream['id'])}/redeliver/${failure.id}`);
  await waitUntil('the event to arrive', () => receiver.accepted.length === 2);
  note(`It arrived with the same id ${failure.id}:`);
  show(receiver.accepted[1]);

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

async function startDemoService(folder: string): Promise<Service> {
  const read = readConfig({
    LEAT_PORT: String(await freePort()),
    LEAT_STORE: `sqlite:${join(folder, 'leat.db')}`,
    LEAT_TENANT_DOMAIN: 'localhost',
    LEAT_BOOTSTRAP_CLIENT_ID: client.id,
    LEAT_BOOTSTRAP_CLIENT_SECRET: client.secret,
    LEAT_RETRY_DELAYS_MS: '250,500,1000',
    LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
    LEAT_EGRESS_ALLOW: '127.0.0.0/8',
    LEAT_LOG_LEVEL: 'error',
  });
  if ('problems' in read) throw new Error(read.problems.join('\n'));
  return startService({
    config: read.config,
    texts: read.texts,
    clock: systemClock,
    random: systemRandom,
    log: await openLog(read.config, { clock: systemClock, stderr: process.stderr }),
    version: 'demo',
  });
}

/** Returns a free port. */
async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function keep(service: Service, receiver: Receiver): Promise<void> {
  process.stdout.write(
    `\nLeat stays up at ${service.url} (client id ${client.id}, secret ${client.secret});\n` +
      `the receiver is ${receiver.url}. Press Ctrl-C to end.\n`,
  );
  await once(process, 'SIGINT');
}

// The receiver

interface Receiver {
  readonly url: string;
  readonly server: Server;
  /** Bodies of the requests that got a 204. */
  readonly accepted: unknown[];
  refused: number;
  broken: boolean;
}

async function startReceiver(): Promise<Receiver> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (receiver.broken) {
        receiver.refused++;
        response.writeHead(503).end('busy');
      } else {
        receiver.accepted.push(JSON.parse(Buffer.concat(chunks).toString()));
        response.writeHead(204).end();
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const url = `http://127.0.0.1:${port}/webhook`;
  const receiver: Receiver = { url, server, accepted: [], refused: 0, broken: false };
  return receiver;
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
