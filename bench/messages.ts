import assert from 'node:assert/strict';
import { fork, spawn, type ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { exportJWK, SignJWT } from 'jose';
import { authority, trusted } from '../test/helpers/certificates.ts';
import { freePort, waitFor } from '../test/helpers/leat.ts';
import type { Bench, Figure } from './bench.ts';
import { endChild, message } from './child.ts';
import { load, loadCounted } from './load.ts';
import { beginProfile, profiledEnvironment } from './profile.ts';
import { rateFigure } from './report.ts';
import { alternate, median } from './rounds.ts';
import { perUnit, spentBy } from './spent.ts';

const seconds = 3;
const connections = 64;
const audience = 'https://messages.example.com';
const origin = 'http://localhost:4040';
const kinds = ['public', 'protected', 'admin'] as const;

/**
 * The message API against the same three endpoints in Express, and against a handler of node:http
 * that reads nothing of the request. Requests are those of a page in Chromium; each connection has its
 * own token, as each client has.
 */
export const messages: Bench = {
  name: 'messages',
  what: `the message API over ${connections} connections, each with its own token; against the same API in Express, and a bare node:http handler`,
  run: async (progress, { rounds }) => {
    const issuer = await openIssuer();
    const tokens = await Promise.all(Array.from({ length: connections }, issuer.token));
    const servers = await startServers(issuer);
    try {
      for (const side of [servers.leat, servers.express]) await checkSame(side.port, tokens[0]);
      const figures: Figure[] = [];
      for (const kind of kinds) {
        const limit = kind === 'public' ? { least: 4, goal: 6 } : { least: 6, goal: 10 };
        const ours: Served[] = [];
        const theirs: Served[] = [];
        const rate = async (side: Side, into: Served[]): Promise<number> => {
          const one = await serve(side, kind, tokens);
          into.push(one);
          return one.perSecond;
        };
        const measured = await alternate(
          rounds,
          () => rate(servers.leat, ours),
          () => rate(servers.express, theirs),
          (text) => progress(`${kind}, ${text}`),
        );
        figures.push(rateFigure(`messages ${kind}`, measured, limit));
        figures.push(timeFigure(`messages ${kind}, time`, theirs, ours));
      }
      return [...figures, await shareOfPossible(servers, tokens, rounds, progress)];
    } finally {
      for (const { child } of Object.values(servers)) await endChild(child);
      await issuer.close();
    }
  },
};

interface Side {
  readonly port: number;
  readonly child: ChildProcess;
}

async function shareOfPossible(
  { leat, bare }: { leat: Side; bare: Side },
  tokens: readonly string[],
  rounds: number,
  progress: (text: string) => void,
): Promise<Figure> {
  const measured = await alternate(
    rounds,
    async () => (await serve(leat, 'admin', tokens)).perSecond,
    async () => (await serve(bare, 'admin', tokens)).perSecond,
    (text) => progress(`bare handler, ${text}`),
  );
  return rateFigure('messages, of bare', measured, { least: 0.5, goal: 1 });
}

interface Served {
  readonly perSecond: number;
  /** Processor time of the server for each request. */
  readonly micros: number;
}

async function serve(
  { port, child }: Side,
  kind: (typeof kinds)[number],
  tokens: readonly string[],
): Promise<Served> {
  const requests = tokens.map((token) => requestOf(kind, kind === 'public' ? undefined : token));
  await load({ port, connections, seconds: 0.5, requests });
  const pid = child.pid ?? 0;
  const before = await spentBy(pid);
  const { responses, ...loaded } = await loadCounted({ port, connections, seconds, requests });
  const { whole } = perUnit(before, await spentBy(pid), responses);
  return { perSecond: responses / loaded.seconds, micros: whole };
}

/**
 * Compares processor times: a fast server has as many requests a second as the load can send, which
 * is less than it could serve.
 */
function timeFigure(name: string, theirs: readonly Served[], ours: readonly Served[]): Figure {
  const micros = (served: readonly Served[]): string =>
    `${median(served.map((one) => one.micros)).toFixed(1)} µs`;
  return {
    name,
    detail: `${micros(ours)} of the server's processor time a request against ${micros(theirs)}`,
    values: theirs.map((one, round) => one.micros / (ours[round]?.micros ?? NaN)),
    unit: '×',
    must: undefined,
    goal: undefined,
    better: 'higher',
  };
}

/** Checks that both sides are the same API: a baseline without token checks would be meaningless. */
async function checkSame(port: number, token = ''): Promise<void> {
  const base = `http://127.0.0.1:${port}/api/messages`;
  const get = async (kind: string, authorization?: string): Promise<[number, unknown]> => {
    const headers = { origin, ...(authorization === undefined ? {} : { authorization }) };
    const response = await fetch(`${base}/${kind}`, { headers });
    assert.equal(response.headers.get('access-control-allow-origin'), origin);
    assert.equal(response.headers.get('cross-origin-resource-policy'), 'same-origin');
    return [response.status, await response.json()];
  };
  const good = `Bearer ${token}`;
  assert.deepEqual(await get('public'), [200, { text: 'This is a public message.' }]);
  assert.deepEqual(await get('protected', good), [200, { text: 'This is a protected message.' }]);
  assert.deepEqual(await get('admin', good), [200, { text: 'This is an admin message.' }]);
  assert.deepEqual(await get('admin'), [401, { message: 'Requires authentication' }]);
  assert.deepEqual(await get('admin', `${good.slice(0, -9)}AAAAAAAAA`), [
    401,
    { message: 'Bad credentials' },
  ]);
}

interface Issuer {
  readonly domain: string;
  /** A file with the CA of its certificate. */
  readonly authorityFile: string;
  token(): Promise<string>;
  close(): Promise<void>;
}

/** Starts an authorization server that only publishes its key, over TLS. */
async function openIssuer(): Promise<Issuer> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-bench-'));
  const authorityFile = join(folder, 'ca.pem');
  await writeFile(authorityFile, authority);
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = { ...(await exportJWK(publicKey)), kid: 'bench', use: 'sig', alg: 'RS256' };
  const server = createServer(trusted, (_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: [jwk] }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const domain = `localhost:${(server.address() as AddressInfo).port}`;
  let subject = 0;
  return {
    domain,
    authorityFile,
    token: () =>
      new SignJWT({
        azp: `client-${(subject += 1)}`,
        gty: 'client-credentials',
        permissions: ['read:admin-messages'],
      })
        .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: 'bench' })
        .setIssuer(`https://${domain}/`)
        .setAudience(audience)
        .setSubject(`client-${subject}@clients`)
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
    close: async () => {
      server.close();
      server.closeAllConnections();
      await rm(folder, { recursive: true });
    },
  };
}

async function startServers(issuer: Issuer): Promise<Record<'leat' | 'express' | 'bare', Side>> {
  const env = {
    PATH: process.env['PATH'] ?? '',
    NODE_EXTRA_CA_CERTS: issuer.authorityFile,
    CLIENT_ORIGIN_URL: origin,
    TOKEN_AUDIENCE: audience,
    TOKEN_ISSUER_DOMAIN: issuer.domain,
  };
  const forked = async (file: string): Promise<Side> => {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const;
    const child = fork(new URL(file, import.meta.url), {
      env: profiledEnvironment(env),
      stdio: [...stdio],
    });
    const { port } = await message<{ port: number }>(child);
    beginProfile(child, basename(file));
    return { port, child };
  };
  return {
    leat: await startLeatMessages(env),
    express: await forked('./express-messages.ts'),
    bare: await forked('./bare-message.ts'),
  };
}

/** Starts the real program as `npm run messages` does. */
async function startLeatMessages(env: Readonly<Record<string, string>>): Promise<Side> {
  const port = await freePort();
  const program = new URL('../src/main.ts', import.meta.url).pathname;
  const child = spawn(process.execPath, [program, 'messages'], {
    cwd: tmpdir(),
    env: profiledEnvironment({ ...env, PORT: String(port) }),
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const url = `http://127.0.0.1:${port}/api/messages/public`;
  await waitFor('the message API', async () => (await fetch(url).catch(() => undefined))?.ok);
  beginProfile(child, 'message process');
  return { port, child };
}

/** Returns a request as Chromium sends it from a page of the allowed origin. */
function requestOf(kind: string, token: string | undefined): Buffer {
  const authorization = token === undefined ? [] : [`authorization: Bearer ${token}`];
  const lines = [
    `GET /api/messages/${kind} HTTP/1.1`,
    'Host: localhost:6060',
    'Connection: keep-alive',
    'sec-ch-ua-platform: "Linux"',
    ...authorization,
    'User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/153.0.0.0 Safari/537.36',
    'sec-ch-ua: "Chromium";v="153", "Not-A.Brand";v="24"',
    'sec-ch-ua-mobile: ?0',
    'Accept: */*',
    `Origin: ${origin}`,
    'Sec-Fetch-Site: same-site',
    'Sec-Fetch-Mode: cors',
    'Sec-Fetch-Dest: empty',
    `Referer: ${origin}/`,
    'Accept-Encoding: gzip, deflate, br, zstd',
    'Accept-Language: en-US,en;q=0.9',
  ];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
}
