import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  createStream,
  eventsOf,
  expectBody,
  failuresOf,
  freshType,
  patchStream,
  publish,
  publishAll,
  waitForError,
  waitForFailures,
  waitForStats,
} from '../helpers/api-client.ts';
import { authority } from '../helpers/certificates.ts';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import {
  createTempStore,
  freePort,
  type Running,
  startLeat,
  type TempStore,
  waitFor,
} from '../helpers/leat.ts';
import { startTokenServer, type TokenServer } from '../helpers/token-server.ts';

/** Access tokens of an authorization server of somebody else, with the real program. */

let tempStore: TempStore;
let leat: Running;
let server: TokenServer;
let metricsPort: number;
const endpoints: Endpoint[] = [];
const tokens = new Set<string>();
const notStored = '(not stored: the response repeats a secret of the stream)';

before(async () => {
  tempStore = await createTempStore();
  server = await startTokenServer();
  metricsPort = await freePort();
  const caFile = join(tempStore.folder, 'ca.pem');
  await writeFile(caFile, authority);
  leat = await startLeat(tempStore, {
    NODE_EXTRA_CA_CERTS: caFile,
    LEAT_RETRY_DELAYS_MS: '10,20',
    LEAT_LOG_LEVEL: 'debug',
    LEAT_METRICS_PORT: String(metricsPort),
  });
});
after(async () => {
  for (const endpoint of endpoints) await endpoint.close();
  await leat.kill();
  await server.close();
  await tempStore.remove();
});

function authorization(changes: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    method: 'oauth2_client_credentials',
    token_endpoint: server.url,
    client_id: server.client.id,
    client_secret: server.client.secret,
    scope: 'hooks:write',
    audience: 'https://hooks.example.com/',
    ...changes,
  };
}

/** Starts a receiver that accepts valid tokens only. */
async function startReceiver(): Promise<Endpoint> {
  const endpoint = await startEndpoint();
  endpoints.push(endpoint);
  endpoint.respondWith((response, { headers }) => {
    const token = headers.authorization?.replace(/^Bearer /, '') ?? '';
    tokens.add(token);
    const respond = async (): Promise<void> => {
      const isValid = (await server.scopeOf(token)) === 'hooks:write';
      response.writeHead(isValid ? 204 : 401).end(isValid ? '' : `not valid: ${token}`);
    };
    void respond();
  });
  return endpoint;
}

test('a receiver that checks access tokens accepts every event, with one token', async () => {
  const receiver = await startReceiver();
  const type = freshType();
  const fetched = server.fetches;
  const changes = { audience: 'https://one.example.com/' };
  const options = { types: [type], authorization: authorization(changes) };
  const stream = await createStream(leat, receiver.url, options);
  await publishAll(leat, eventsOf(type, 200));
  await waitForStats(leat, stream.id, { delivered: 200 });
  assert.equal(receiver.arrivals.length, 200);
  assert.equal(server.fetches - fetched, 1);
  assert.deepEqual(await failuresOf(leat, stream.id), []);
});

test('a revoked token is replaced within the attempt, for all streams of the client', async () => {
  const receivers = [await startReceiver(), await startReceiver()];
  const type = freshType();
  const changes = { audience: 'https://two.example.com/' };
  const options = { types: [type], authorization: authorization(changes) };
  const fetched = server.fetches;
  const streams = await Promise.all(
    receivers.map((receiver) => createStream(leat, receiver.url, options)),
  );
  for (const delivered of [1, 2]) {
    await publish(leat, type);
    for (const { id } of streams) await waitForStats(leat, id, { delivered });
    assert.equal(server.fetches - fetched, delivered);
    server.revokeAll();
  }
  for (const { id } of streams) assert.deepEqual(await failuresOf(leat, id), []);
  const counts = receivers.map(({ arrivals }) => arrivals.length);
  assert.ok(
    counts.every((count) => count >= 2 && count <= 3),
    `requests: ${counts.join(', ')}`,
  );
  assert.ok(counts.includes(3), 'one of them responded with 401');
});

describe('a receiver that shows the token of a request', () => {
  for (const signature of ['v1', 'v1a', 'v1 v1a']) {
    test(`does not get it into the error of a request with the signature ${signature}`, async () => {
      const receiver = await startEndpoint();
      endpoints.push(receiver);
      receiver.respondWith((response, { headers }) => {
        tokens.add(headers.authorization?.replace(/^Bearer /, '') ?? '');
        response.writeHead(400).end(`refused: ${headers.authorization}`);
      });
      const type = freshType();
      const options = {
        types: [type],
        authorization: authorization({ audience: type }),
        delivery: { signature },
      };
      const stream = await createStream(leat, receiver.url, options);
      await publish(leat, type);
      assert.equal(await waitForError(leat, stream.id), `400 - ${notStored}`);
    });
  }
});

describe('a token that cannot be had', () => {
  const causes: readonly (readonly [string, number, string, string])[] = [
    ['an error of the server', 500, 'oops', 'authorization: token endpoint: 500'],
    ['HTML', 200, '<html>', 'authorization: token response: not a JSON object'],
    ['no token', 200, '{"token":"x"}', 'authorization: token response: no access_token'],
  ];
  for (const [name, status, body, message] of causes) {
    test(`is a failed attempt that names ${name}, and is retried`, async (t) => {
      server.respond = (response) => response.writeHead(status).end(body);
      t.after(() => {
        server.respond = undefined;
      });
      const receiver = await startReceiver();
      const type = freshType();
      const options = { types: [type], authorization: authorization({ audience: type }) };
      const stream = await createStream(leat, receiver.url, options);
      await publish(leat, type);
      const [failure] = await waitForFailures(leat, stream.id, 1);
      assert.deepEqual(
        failure?.attempts.map((attempt) => attempt.error_message),
        [message, message, message],
      );
      assert.equal(receiver.connections(), 0);
    });
  }

  test('because the secret is wrong names the code of the error', async () => {
    const type = freshType();
    const options = { types: [type], authorization: authorization({ client_secret: 'wrong' }) };
    const stream = await createStream(leat, (await startReceiver()).url, options);
    await publish(leat, type);
    const message = 'authorization: token endpoint: 401 invalid_client';
    assert.equal(await waitForError(leat, stream.id), message);
  });

  test('because its address is blocked names the address where the URL has it', async () => {
    const type = freshType();
    const url = `https://[::1]:${new URL(server.url).port}/token`;
    const refused = leat.send('POST', '/api/v2/event-streams', {
      destination: {
        type: 'webhook',
        configuration: {
          webhook_endpoint: 'https://hooks.example.com/',
          webhook_authorization: authorization({ token_endpoint: url }),
        },
      },
    });
    const { message } = await expectBody<{ message: string }>(400, refused);
    assert.match(message, /blocked address: ::1 .*webhook_authorization\.token_endpoint/);
    const named = url.replace('[::1]', 'ip6-localhost');
    const options = { types: [type], authorization: authorization({ token_endpoint: named }) };
    const stream = await createStream(leat, (await startReceiver()).url, options);
    await publish(leat, type);
    assert.match(
      await waitForError(leat, stream.id),
      /^authorization: token endpoint: (blocked address: no allowed address \(LEAT_EGRESS_ALLOW\)|dns: )/,
    );
  });
});

test(
  'a token endpoint that hangs neither uses up the slots nor delays other streams',
  { tags: ['long'] },
  async (t) => {
    // Of its own: the tokens of other tests would wait for the end of its requests.
    const hanging = await startTokenServer();
    hanging.respond = () => undefined;
    t.after(hanging.close);
    const type = freshType();
    const receiver = await startReceiver();
    const waiting = await Promise.all(
      Array.from({ length: 30 }, (_, number) =>
        createStream(leat, receiver.url, {
          types: [type],
          authorization: authorization({
            token_endpoint: hanging.url,
            audience: `https://hangs.example.com/${number}`,
          }),
        }),
      ),
    );
    const open = await startEndpoint();
    endpoints.push(open);
    const other = await createStream(leat, open.url, { types: [type] });
    await publishAll(leat, eventsOf(type, 100));
    await waitForStats(leat, other.id, { delivered: 100 });
    assert.equal(receiver.arrivals.length, 0);
    const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    assert.match(metrics, /_in_flight(_attempts)? 0\n/);
    for (const { id } of waiting) await leat.send('DELETE', `/api/v2/event-streams/${id}`);
  },
);

test('neither a token nor the secret is in failures, responses, logs, metrics or the audit log', async () => {
  const receiver = await startReceiver();
  const type = freshType();
  const options = { types: [type], authorization: authorization({ audience: type }) };
  const stream = await createStream(leat, receiver.url, options);
  receiver.respondWith((response, arrival) => {
    const token = arrival.headers.authorization?.replace(/^Bearer /, '') ?? '';
    tokens.add(token);
    // The second response has the token that was replaced, and only that one.
    const former = [...tokens].at(-2) ?? token;
    response.writeHead(401).end(`refused: ${former}`);
  });
  await publish(leat, type);
  assert.equal(await waitForError(leat, stream.id), `401 - ${notStored}`);
  assert.ok(receiver.arrivals.length >= 2, 'two tokens were refused');

  await patchStream(leat, stream.id, { name: `${type}-renamed` });
  const pages = [
    `/api/v2/event-streams/${stream.id}`,
    `/api/v2/event-streams/${stream.id}/deliveries`,
    '/api/v2/logs',
    '/api/v2/event-streams',
  ];
  const responses = await Promise.all(
    pages.map(async (path) => {
      const response = await leat.send('GET', path);
      assert.equal(response.status, 200, path);
      return response.text();
    }),
  );
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const everything = [leat.output(), metrics, ...responses].join('\n');
  const stored = await waitFor('the store on the disk', () => readFile(tempStore.file, 'latin1'));
  assert.ok(leat.output().includes(stream.id), 'the log has entries of the stream');
  assert.ok(tokens.size > 0);
  for (const secret of [server.client.secret, ...tokens]) {
    assert.ok(!everything.includes(secret), secret);
    assert.ok(!everything.includes(btoa(encodeURIComponent(secret))), secret);
    assert.ok(!stored.includes(Buffer.from(secret).toString('latin1')), secret);
  }
});
