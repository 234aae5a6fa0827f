import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { authority } from '../test/helpers/certificates.ts';
import { freePort, spawnLeat, waitFor } from '../test/helpers/leat.ts';
import type { Bench, Figure } from './bench.ts';
import { endChild, message, profiled, startChild } from './child.ts';
import { makeFolder } from './leat.ts';
import { load } from './load.ts';
import { perUnit, spentBy } from './proc.ts';
import { against, ratioFigure, rateFigure } from './report.ts';
import { alternate, inTurn, pick, type Sides } from './rounds.ts';

const seconds = 3;
const connections = 64;
const audience = 'https://messages.example.com';
const origin = 'http://localhost:4040';
const kinds = ['public', 'protected', 'admin'] as const;
type Kind = (typeof kinds)[number];

/**
 * The message API against the same three endpoints in Express, and against a handler of node:http
 * that reads nothing of the request. Requests are those of a page in Chromium; each connection has its
 * own token, as each client has.
 */
export const messages: Bench = {
  name: 'messages',
  what: `the message API over ${connections} connections, each with its own token; against the same API in Express, and a bare node:http handler`,
  run: async (progress, { rounds }) => {
    // When it is loaded, oidc-provider prints a warning about Node.
    const { startAuthorizationServer, trustAuthority } =
      await import('../test/helpers/authorization-server.ts');
    trustAuthority();
    const issuer = await startAuthorizationServer();
    const token = (): Promise<string> => issuer.token({ audience, client: 'admin' });
    const tokens = await Promise.all(Array.from({ length: connections }, token));
    const { leat, express, bare } = await startServers(issuer.domain);
    for (const side of [leat, express]) await checkSame(side.port, tokens[0]);
    const compared = (kind: Kind, other: Side, name: string): Promise<Sides<Served>> =>
      alternate(
        rounds,
        () => serve(leat, kind, tokens),
        () => serve(other, kind, tokens),
        (text) => progress(`${name}, ${text}`),
      );
    const figures = await inTurn(kinds, async (kind): Promise<Figure[]> => {
      const limit = kind === 'public' ? { least: 4, goal: 6 } : { least: 6, goal: 10 };
      const served = await compared(kind, express, kind);
      const rate = rateFigure(`messages ${kind}`, pick(served, rateOf), limit);
      return [rate, timeFigure(`messages ${kind}, time`, served)];
    });
    const ofBare = pick(await compared('admin', bare, 'bare handler'), rateOf);
    for (const { child } of [leat, express, bare]) await endChild(child);
    await issuer.close();
    return [...figures, rateFigure('messages, of bare', ofBare, { least: 0.5, goal: 1 })];
  },
};

interface Side {
  readonly port: number;
  readonly child: ChildProcess;
}

interface Served {
  readonly perSecond: number;
  /** Processor time of the server for each request. */
  readonly micros: number;
}

const rateOf = ({ perSecond }: Served): number => perSecond;

async function serve(
  { port, child }: Side,
  kind: Kind,
  tokens: readonly string[],
): Promise<Served> {
  const requests = tokens.map((token) => requestOf(kind, kind === 'public' ? undefined : token));
  await load({ port, connections, seconds: 0.5, requests });
  const pid = child.pid ?? 0;
  const before = await spentBy(pid);
  const { responses, perSecond } = await load({ port, connections, seconds, requests });
  const { whole } = perUnit(before, await spentBy(pid), responses);
  return { perSecond, micros: whole };
}

/**
 * Compares processor times: a fast server has as many requests a second as the load can send, which
 * is less than it could serve.
 */
function timeFigure(name: string, served: Sides<Served>): Figure {
  const micros = pick(served, (one) => one.micros);
  const detail = `${against(micros, 'µs')} of the server's processor time a request`;
  const inverse = { ours: micros.theirs, theirs: micros.ours };
  return { ...ratioFigure(name, inverse, { detail, better: 'higher' }), rounds: micros };
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

async function startServers(
  issuerDomain: string,
): Promise<Record<'leat' | 'express' | 'bare', Side>> {
  const { folder } = await makeFolder();
  const authorityFile = join(folder, 'ca.pem');
  await writeFile(authorityFile, authority);
  const env = {
    NODE_EXTRA_CA_CERTS: authorityFile,
    CLIENT_ORIGIN_URL: origin,
    TOKEN_AUDIENCE: audience,
    TOKEN_ISSUER_DOMAIN: issuerDomain,
  };
  const forked = async (file: string): Promise<Side> => {
    const child = startChild(file, [], env);
    const { port } = await message<{ port: number }>(child);
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
  const { child } = spawnLeat(['messages'], profiled('leat', { ...env, PORT: String(port) }));
  const url = `http://127.0.0.1:${port}/api/messages/public`;
  await waitFor('the message API', async () => (await fetch(url).catch(() => undefined))?.ok);
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
