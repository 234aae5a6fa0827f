import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { exchange, requestText } from '../helpers/exchange.ts';
import {
  bootstrapClient,
  fetchToken,
  freePort,
  createTempStore,
  runLeat,
  secretKey,
  spawnLeat,
  startLeat,
  waitFor,
  type TempStore,
  type Running,
} from '../helpers/leat.ts';
import {
  expectBody,
  bearer,
  createStream,
  failuresOf,
  freshType,
  patchStream,
  publish,
  publishAll,
  eventsOf,
  readStream,
  redeliver,
  statsOf,
  waitForFailures,
  waitForStats,
  type ProblemBody,
} from '../helpers/api-client.ts';

const key = { LEAT_SECRET_KEY: secretKey.toString('base64') };
const client = {
  LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
  LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
};

describe('leat config', { concurrency: 2 }, () => {
  test('leat config prints every setting and no secret', async (t) => {
    const tempStore = await tempStoreOf(t);
    const env = {
      LEAT_STORE: 'postgres://user:store-password@db.example.com/leat',
      LEAT_SECRET_KEY: key.LEAT_SECRET_KEY,
      LEAT_BOOTSTRAP_CLIENT_ID: 'operator',
      LEAT_BOOTSTRAP_CLIENT_SECRET: 'bootstrap-secret-of-mine',
      LEAT_ALERT_WEBHOOK_URL: 'https://hooks.example.com/T0/alert-path-secret?q=alert-query',
      LEAT_ALERT_EMAIL: 'ops@example.com',
      LEAT_SMTP_URL: 'smtp://mailer:smtp-password@mail.example.com:587',
    };
    const { code, output } = await runLeat(['config'], env, { cwd: tempStore.folder });
    assert.equal(code, 0, output);
    const secrets = [
      'store-password',
      key.LEAT_SECRET_KEY,
      'bootstrap-secret',
      'alert-path-secret',
    ];
    for (const secret of [...secrets, 'alert-query', 'smtp-password']) {
      assert.ok(!output.includes(secret), output);
    }
    for (const shown of ['db.example.com', 'hooks.example.com', 'mail.example.com', 'operator']) {
      assert.ok(output.includes(shown), shown);
    }
    const settings = new URL('../../src/settings/', import.meta.url);
    const names = await readdir(settings);
    const sources = await Promise.all(
      names.map((name) => readFile(new URL(name, settings), 'utf8')),
    );
    const variables = sources.join('\n').match(/(?<=variable: ')LEAT_\w+/g) ?? [];
    assert.ok(variables.length > 35);
    for (const variable of variables) assert.ok(output.includes(`${variable} `), variable);
  });

  test('leat config reads .env, and the environment wins over it', async (t) => {
    const tempStore = await tempStoreOf(t);
    await writeFile(
      join(tempStore.folder, '.env'),
      'LEAT_PORT=1111\nLEAT_TENANT_NAME="from-file"\n',
    );
    const { output } = await runLeat(['config'], { LEAT_PORT: '2222' }, { cwd: tempStore.folder });
    assert.match(output, /LEAT_PORT\s+2222\s/);
    assert.match(output, /LEAT_TENANT_NAME\s+from-file\s/);
    assert.match(output, /LEAT_TENANT_DOMAIN\s+localhost:2222\s/);
  });
});

describe('a start with a wrong value', { concurrency: 2 }, () => {
  const cases: [string, Record<string, string>, RegExp][] = [
    [
      'of a port',
      { LEAT_PORT: '80a' },
      /^LEAT_PORT: "80a" is not a whole number from 1 to 65535, for example LEAT_PORT=8080\n$/,
    ],
    ['of a key that is too short', { LEAT_SECRET_KEY: 'c2hvcnQ=' }, /^LEAT_SECRET_KEY: .+\n$/],
    ['of a tenant', { LEAT_TENANT_NAME: 'My Tenant' }, /^LEAT_TENANT_NAME: .+ for example .+\n$/],
    ['of delays', { LEAT_RETRY_DELAYS_MS: '1000,,2000' }, /^LEAT_RETRY_DELAYS_MS: .+\n$/],
    ['of half a pair', { LEAT_TLS_CERT: '/etc/cert.pem' }, /^LEAT_TLS_KEY: .+\n$/],
    [
      'of a secret that is too short',
      { ...client, LEAT_BOOTSTRAP_CLIENT_SECRET: 'too-short' },
      /^LEAT_BOOTSTRAP_CLIENT_SECRET: .+\n$/,
    ],
    ['of a host', { LEAT_HOST: '203.0.113.1' }, /^LEAT_HOST: .+\n$/m],
  ];
  for (const [what, env, expected] of cases) {
    test(`${what} ends with one line and code 1`, async (t) => {
      const tempStore = await tempStoreOf(t);
      const port = String(await freePort());
      const all = { LEAT_STORE: `sqlite:${tempStore.file}`, LEAT_PORT: port, ...env };
      const { code, output } = await runLeat(['serve'], all, { cwd: tempStore.folder });
      assert.match(output, expected);
      assert.equal(code, 1);
      for (const secret of ['too-short', 'c2hvcnQ=']) assert.ok(!output.includes(secret), output);
    });
  }

  test('a start with a wrong value names an unknown variable, and starts', async (t) => {
    const { leat } = await running(t, { LEAT_PROT: '1', LEAT_LOG_LEVEL: 'warn' });
    assert.match(leat.output(), /LEAT_PROT/);
  });

  test('a start with a wrong value names the port that is in use', async (t) => {
    const tempStore = await tempStoreOf(t);
    const other = createServer().listen(0, '127.0.0.1');
    t.after(() => other.close());
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const env = { LEAT_STORE: `sqlite:${tempStore.file}`, LEAT_PORT: String(port) };
    assert.deepEqual(await runLeat(['serve'], env), {
      code: 1,
      output:
        `LEAT_PORT: ${port} on 127.0.0.1 is in use, ` +
        `choose another, for example LEAT_PORT=${port + 1}\n`,
    });
  });

  test(
    'a start with a wrong value refuses a key that does not fit the stored secrets',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      await createStream(leat, 'https://example.com/');
      await leat.stop();
      const env = {
        LEAT_STORE: `sqlite:${tempStore.file}`,
        LEAT_PORT: String(leat.port),
        LEAT_SECRET_KEY: Buffer.alloc(32, 8).toString('base64'),
      };
      const { code, output } = await runLeat(['serve'], env);
      assert.equal(code, 1, output);
      assert.match(output, /^LEAT_SECRET_KEY: .+\n$/);
    },
  );

  test('a start with a wrong value refuses a file that is not a database, and does not change it', async (t) => {
    const tempStore = await tempStoreOf(t);
    await writeFile(tempStore.file, 'this is no database, it is my diary\n'.repeat(200));
    const was = await readFile(tempStore.file);
    const env = {
      LEAT_STORE: `sqlite:${tempStore.file}`,
      LEAT_PORT: String(await freePort()),
      ...key,
    };
    const { code, output } = await runLeat(['serve'], env);
    assert.equal(code, 1, output);
    assert.match(output, /^LEAT_STORE: .+\n$/);
    assert.deepEqual(await readFile(tempStore.file), was);
  });
});

const withStore: (readonly string[])[] = [
  ['serve'],
  ['start'],
  ['doctor'],
  ['status'],
  ['backup', 'copy.db'],
  ['restore', 'copy.db'],
  ['tenants', 'list'],
  ['keys', 'list'],
];

for (const [index, words] of withStore.entries()) {
  const tags = index === 0 ? [] : ['long'];
  test(
    `leat ${words.join(' ')}: refuses a store with parameters of SQLite`,
    { tags },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const env = { LEAT_STORE: `sqlite:${tempStore.file}?mode=memory`, ...key };
      const { code, output } = await runLeat(words, env);
      assert.equal(code, 1, output);
      assert.match(output, /^LEAT_STORE: .+ parameters of SQLite are not accepted; .+%3F.+\n$/);
      assert.deepEqual(await readdir(tempStore.folder), []);
    },
  );
}

test(
  'leat migrate-store: refuses a source with parameters of SQLite',
  { tags: ['long'] },
  async () => {
    const words = ['migrate-store', '--from', 'sqlite:leat.db?nolock=1', '--to', 'postgres://db/a'];
    const { code, output } = await runLeat(words, key);
    assert.equal(code, 1, output);
    assert.match(output, /^--from: .+ parameters of SQLite are not accepted; .+%3F.+\n$/);
  },
);

describe('a second process on the same file', () => {
  test(
    'a second process on the same file fails with one line, and the first continues',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      const env = {
        LEAT_STORE: `sqlite:${tempStore.file}`,
        LEAT_PORT: String(await freePort()),
        ...key,
        ...client,
      };
      const { code, output } = await runLeat(['serve'], env);
      assert.equal(code, 1, output);
      assert.match(output, /^LEAT_STORE: [^\n]+\n$/);
      await createStream(leat, 'https://example.com/');
      assert.equal(await leat.stop(), 0);
      assert.equal((await runLeat(['tenants', 'list'], env)).code, 0);
    },
  );

  test(
    'a second process on the same file starts at once after the first was killed',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      const stream = await createStream(leat, 'https://example.com/');
      await leat.kill();
      const again = await startLeat(tempStore, { LEAT_PORT: String(leat.port) });
      t.after(() => again.kill());
      assert.deepEqual(await readStream(again, stream.id), stream);
    },
  );
});

describe('Ctrl-C', () => {
  test(
    'Ctrl-C waits for the attempt in progress, records it, and ends with 0',
    { tags: ['long'] },
    async (t) => {
      const endpoint = await endpointOf(t);
      const { tempStore, leat } = await running(t);
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type] });
      const held = hold(endpoint);
      const id = await publish(leat, type);
      await endpoint.arrival(1);
      leat.child.kill('SIGINT');
      await waitForRefusal(leat);
      assert.equal(leat.child.exitCode, null);
      const ended = once(leat.child, 'close');
      held.release();
      await ended;
      assert.equal(leat.child.exitCode, 0);

      const again = await startLeat(tempStore, { LEAT_PORT: String(leat.port) });
      t.after(() => again.kill());
      const marker = await publish(again, type);
      await waitForStats(again, stream.id, { delivered: 2 });
      assert.equal(endpoint.of(id).length, 1, 'what was recorded is not sent again');
      assert.equal(endpoint.of(marker).length, 1);
    },
  );

  test(
    'Ctrl-C keeps a retry that was waiting for the next start',
    { tags: ['long'] },
    async (t) => {
      const endpoint = await endpointOf(t, 503);
      const { tempStore, leat } = await running(t, { LEAT_RETRY_DELAYS_MS: '100,100,100' });
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type] });
      const ids = await publishAll(leat, eventsOf(type, 20));
      await endpoint.arrival(20);
      assert.equal(await leat.stop(), 0);
      endpoint.respondWith(204);
      const again = await startLeat(tempStore, {
        LEAT_PORT: String(leat.port),
        LEAT_RETRY_DELAYS_MS: '100,100,100',
      });
      t.after(() => again.kill());
      await waitForStats(again, stream.id, { delivered: 20 });
      assert.deepEqual(await failuresOf(again, stream.id), []);
      assert.ok(ids.every((id) => endpoint.of(id).length >= 2));
    },
  );

  test('Ctrl-C ends a connection with the response to the request in progress', async (t) => {
    const { leat } = await running(t);
    const body = JSON.stringify({ type: 'order.paid', data: {} });
    const socket = connect(leat.port, '127.0.0.1');
    t.after(() => socket.destroy());
    let response = '';
    socket.on('data', (chunk: Buffer) => {
      response += chunk.toString();
    });
    const head = [`Authorization: Bearer ${leat.token}`, 'Content-Type: application/json'];
    socket.write(
      requestText('POST /api/v2/events', [
        ...head,
        'Expect: 100-continue',
        `Content-Length: ${body.length}`,
      ]),
    );
    await waitFor('the request to be in progress', () => response.includes('100 Continue'));
    response = '';
    const ended = once(leat.child, 'close');
    leat.child.kill('SIGINT');
    await waitForRefusal(leat);
    socket.write(body);
    await waitFor('the response', () => response.includes('\r\n\r\n'));
    assert.match(response, /^HTTP\/1\.1 (202|503) /);
    assert.match(response, /\r\nconnection: close\r\n/i);
    await ended;
    assert.equal(leat.child.exitCode, 0);
  });

  test(
    'a second Ctrl-C ends the program at once, and the event is sent again later',
    { tags: ['long'] },
    async (t) => {
      const endpoint = await endpointOf(t);
      const { tempStore, leat } = await running(t);
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type] });
      hold(endpoint);
      const id = await publish(leat, type);
      await endpoint.arrival(1);
      leat.child.kill('SIGINT');
      await waitForRefusal(leat);
      // One that follows at once counts as the first: npm repeats it.
      await waitFor('the end', () => {
        leat.child.kill('SIGINT');
        return leat.child.exitCode !== null;
      });
      assert.equal(leat.child.exitCode, 130);

      endpoint.respondWith(204);
      const again = await startLeat(tempStore, { LEAT_PORT: String(leat.port) });
      t.after(() => again.kill());
      await waitForStats(again, stream.id, { delivered: 1 });
      assert.equal(endpoint.of(id).length, 2);
    },
  );

  test(
    'Ctrl-C while events are published loses no acknowledged event',
    { tags: ['long'] },
    async (t) => {
      const endpoint = await endpointOf(t);
      const { tempStore, leat } = await running(t);
      const type = freshType();
      await createStream(leat, endpoint.url, { types: [type] });
      const acknowledged: string[] = [];
      const refusals: number[] = [];
      const publisher = async (): Promise<void> => {
        for (;;) {
          try {
            const response = await leat.send('POST', '/api/v2/events', eventsOf(type, 5));
            if (response.status !== 202) {
              refusals.push(response.status);
              return;
            }
            const stored = (await response.json()) as { id: string }[];
            acknowledged.push(...stored.map(({ id }) => id));
          } catch {
            return;
          }
        }
      };
      const publishers = [publisher(), publisher(), publisher(), publisher()];
      await endpoint.arrival(50);
      assert.equal(await leat.stop(), 0);
      await Promise.all(publishers);
      assert.ok(refusals.every((status) => status === 503));
      const again = await startLeat(tempStore, { LEAT_PORT: String(leat.port) });
      t.after(() => again.kill());
      await waitFor('every acknowledged event', () => {
        const got = new Set(endpoint.arrivals.map(({ event }) => event.id));
        return acknowledged.every((id) => got.has(id));
      });
      const twice =
        endpoint.arrivals.length - new Set(endpoint.arrivals.map((a) => a.event.id)).size;
      assert.equal(twice, 0, 'a clean stop settles what was delivered');
    },
  );
});

describe('the first start without a terminal', () => {
  test(
    'the first start without a terminal writes the credentials to a file that only the owner can read, and prints the path',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const folder = join(tempStore.folder, 'data');
      const port = String(await freePort());
      const env = { LEAT_STORE: `sqlite:${folder}/leat.db`, LEAT_PORT: port };
      const url = `http://127.0.0.1:${port}`;
      const first = spawnLeat(['serve'], env);
      t.after(() => first.child.kill('SIGKILL'));
      await waitFor('the credentials', () => first.output().includes('bootstrap.json'));
      const file = join(folder, 'bootstrap.json');
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      assert.equal((await stat(join(folder, 'secret.key'))).mode & 0o777, 0o600);
      const created = JSON.parse(await readFile(file, 'utf8')) as Record<string, string>;
      const { client_id: id = '', client_secret: secret = '' } = created;
      assert.ok(first.output().includes(file));
      assert.ok(!first.output().includes(secret) && secret.length >= 32);
      await waitFor('the first start', () => isReady(url));
      const token = await fetchToken(url, { id, secret });
      await stopped(first.child);

      const second = spawnLeat(['serve'], env);
      t.after(() => second.child.kill('SIGKILL'));
      await waitFor('the second start', () => isReady(url));
      assert.ok(!second.output().includes('bootstrap.json'), second.output());
      assert.ok(await fetchToken(url, { id, secret }));
      const list = await fetch(`${url}/api/v2/event-streams`, { headers: bearer(token) });
      assert.equal(list.status, 200);
      await stopped(second.child);
    },
  );

  test(
    'the first start without a terminal uses a changed secret of the environment, with a warning that does not show it',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      await leat.stop();
      const changed = 'another-secret-of-mine';
      const port = String(leat.port);
      const env = {
        LEAT_STORE: `sqlite:${tempStore.file}`,
        LEAT_PORT: port,
        ...key,
        ...client,
        LEAT_BOOTSTRAP_CLIENT_SECRET: changed,
      };
      const again = spawnLeat(['serve'], env);
      t.after(() => again.child.kill('SIGKILL'));
      await waitFor('the start', () => isReady(leat.url));
      assert.ok(again.output() !== '' && !again.output().includes(changed), again.output());
      await assert.rejects(fetchToken(leat.url, bootstrapClient));
      assert.ok(await fetchToken(leat.url, { id: bootstrapClient.id, secret: changed }));
      await stopped(again.child);
    },
  );
});

describe('tenants', () => {
  test(
    'tenants are created on the command line, chosen by Host, and isolated from each other',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat: alone } = await running(t);
      const type = freshType();
      await alone.stop();
      const port = String(alone.port);
      const env = { LEAT_STORE: `sqlite:${tempStore.file}`, LEAT_PORT: port, ...key };
      const second = await runLeat(['tenants', 'create', 'second', `second.test:${port}`], env);
      assert.equal(second.code, 0, second.output);
      const [id = '', secret = ''] = credentialsIn(second.output);
      for (const words of [
        ['tenants', 'create', 'second', 'third.test'],
        ['tenants', 'create', 'third', `SECOND.test:${port}`],
        ['tenants', 'create', 'No', 'third.test'],
        ['tenants', 'create', 'third', 'https://third.test/'],
        ['tenants', 'bootstrap', 'nobody'],
      ]) {
        const refused = await runLeat(words, env);
        assert.equal(refused.code, 1, words.join(' '));
        assert.match(refused.output, /^[^\n]+\n$/);
      }
      const listed = await runLeat(['tenants', 'list'], env);
      assert.match(listed.output, /^main\s+localhost:\d+$/m);
      assert.match(listed.output, /^second\s+second\.test:\d+$/m);

      const leat = spawnLeat(['serve'], {
        ...env,
        ...client,
        LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
        LEAT_EGRESS_ALLOW: '127.0.0.0/8',
      });
      t.after(() => leat.child.kill('SIGKILL'));
      await waitFor('the start', () => isReady(alone.url));
      const endpoint = await endpointOf(t);
      const first = visitor(alone.port, `localhost:${port}`);
      const other = visitor(alone.port, `second.test:${port}`);
      const firstToken = await first.token(bootstrapClient.id, bootstrapClient.secret);
      const otherToken = await other.token(id, secret);

      assert.equal((await first.request('GET', '/api/v2/event-streams', otherToken)).status, 401);
      assert.equal((await other.request('GET', '/api/v2/event-streams', firstToken)).status, 401);
      await assert.rejects(other.token(bootstrapClient.id, bootstrapClient.secret));
      const unknown = visitor(alone.port, 'nobody.test');
      for (const path of ['/api/v2/event-streams', '/.well-known/jwks.json']) {
        assert.equal((await unknown.request('GET', path, firstToken)).status, 200, path);
      }
      const listAtUnknown = await unknown.request('GET', '/api/v2/event-streams', otherToken);
      assert.equal(listAtUnknown.status, 401, 'an unknown host is for the first tenant alone');
      assert.equal((await unknown.request('GET', '/healthz', '')).status, 200);
      const shouted = visitor(alone.port, `SECOND.TEST:${port}`);
      assert.equal((await shouted.request('GET', '/api/v2/event-streams', otherToken)).status, 200);

      const body = {
        name: 'same name',
        subscriptions: [{ event_type: type }],
        destination: {
          type: 'webhook',
          configuration: {
            webhook_endpoint: endpoint.url,
            webhook_authorization: { method: 'bearer', token: 't' },
          },
        },
      };
      const created = await first.request('POST', '/api/v2/event-streams', firstToken, body);
      assert.equal(created.status, 201, created.body);
      const { id: stream } = JSON.parse(created.body) as { id: string };
      const twin = await other.request('POST', '/api/v2/event-streams', otherToken, body);
      assert.equal(twin.status, 201, twin.body);
      const stolen = await other.request('GET', `/api/v2/event-streams/${stream}`, otherToken);
      assert.equal(stolen.status, 404);
      await other.request('DELETE', `/api/v2/event-streams/${stream}`, otherToken);
      const found = await first.request('GET', `/api/v2/event-streams/${stream}`, firstToken);
      assert.equal(found.status, 200);
      await other.request('POST', '/api/v2/events', otherToken, { type, data: {} });
      await first.request('POST', '/api/v2/events', firstToken, { type, data: {} });
      await endpoint.arrival(2);
      const tenants = endpoint.arrivals.map(({ event }) => String(event['svctenant']));
      assert.deepEqual(tenants.toSorted(), ['main', 'second']);
      await stopped(leat.child);

      const renewed = await runLeat(['tenants', 'bootstrap', 'second'], env);
      const [newId = '', newSecret = ''] = credentialsIn(renewed.output);
      const again = spawnLeat(['serve'], { ...env, ...client });
      t.after(() => again.child.kill('SIGKILL'));
      await waitFor('the start', () => isReady(alone.url));
      await assert.rejects(other.token(id, secret));
      assert.ok(await other.token(newId, newSecret));
      assert.ok(await first.token(bootstrapClient.id, bootstrapClient.secret));
      await stopped(again.child);
    },
  );

  test(
    'tenants that move to another domain have their former tokens refused',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      await leat.stop();
      const moved = await startLeat(tempStore, {
        LEAT_PORT: String(leat.port),
        LEAT_TENANT_DOMAIN: 'leat.example.com',
      });
      t.after(() => moved.kill());
      assert.match(moved.output(), new RegExp(`http://localhost:${leat.port}/`));
      assert.match(moved.output(), /https:\/\/leat\.example\.com\//);
      const former = moved.send('GET', '/api/v2/event-streams', undefined, bearer(leat.token));
      const { message } = await expectBody<ProblemBody>(401, former);
      assert.match(
        message,
        /^Invalid token: its issuer is neither https:\/\/leat\.example\.com\/ /,
      );
      await expectBody(200, moved.send('GET', '/api/v2/event-streams'));
    },
  );
});

describe('a restart', () => {
  test(
    'a restart keeps streams, failures, counters, secrets, tokens and idempotency',
    { tags: ['long'] },
    async (t) => {
      const endpoint = await endpointOf(t, 400);
      const { tempStore, leat } = await running(t);
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type] });
      const id = await publish(leat, type);
      const keyed = { type, id: 'a key', data: {} };
      const first = await expectBody<object>(202, leat.send('POST', '/api/v2/events', keyed));
      const failures = await waitForFailures(leat, stream.id, 2);
      const secretPath = `/api/v2/event-streams/${stream.id}/signing-secret`;
      const rotated = await expectBody(200, leat.send('POST', `${secretPath}/rotate`));
      const paused = await createStream(leat, endpoint.url, { status: 'disabled' });
      assert.equal(await leat.stop(), 0);

      const again = await startLeat(tempStore, { LEAT_PORT: String(leat.port) });
      t.after(() => again.kill());
      const former = again.send('GET', '/api/v2/event-streams', undefined, bearer(leat.token));
      await expectBody(200, former);
      assert.deepEqual(await readStream(again, stream.id), stream);
      assert.deepEqual(await readStream(again, paused.id), paused);
      assert.deepEqual(await failuresOf(again, stream.id), failures);
      assert.deepEqual(await statsOf(again, stream.id), { delivered: 0, failed: 2 });
      assert.deepEqual(await expectBody(200, again.send('GET', secretPath)), rotated);
      assert.deepEqual(await expectBody(202, again.send('POST', '/api/v2/events', keyed)), {
        ...first,
        repeated: true,
      });
      endpoint.respondWith(204);
      await expectBody(202, redeliver(again, stream.id, id));
      await waitForFailures(again, stream.id, 1);
      assert.equal(
        endpoint.arrivals.at(-1)?.headers['authorization'],
        'Bearer token-of-the-receiver',
      );
      await patchStream(again, paused.id, { status: 'enabled' });
      assert.equal(await again.stop(), 0);
    },
  );

  test(
    'a restart with a store in memory loses everything, as it warns',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const memory = { LEAT_STORE: 'sqlite::memory:' };
      const first = await startLeat(tempStore, memory);
      t.after(() => first.kill());
      await createStream(first, 'https://example.com/');
      assert.equal(await first.stop(), 0);
      const second = await startLeat(tempStore, { ...memory, LEAT_PORT: String(first.port) });
      t.after(() => second.kill());
      const list = await expectBody<{ eventStreams: object[] }>(
        200,
        second.send('GET', '/api/v2/event-streams'),
      );
      assert.deepEqual(list.eventStreams, []);
    },
  );
});

describe('the command line', { concurrency: 2 }, () => {
  test('the command line refuses unknown commands', { tags: ['long'] }, async () => {
    for (const words of [['nonsense'], ['serve', 'extra'], ['keys', 'revoke'], ['keys', '--now']]) {
      const { code, output } = await runLeat(words, {});
      assert.equal(code, 2, words.join(' '));
      assert.ok(!output.includes('    at '), output);
    }
  });

  test('the command line names the missing step before the first start', async (t) => {
    const tempStore = await tempStoreOf(t);
    await mkdir(join(tempStore.folder, 'empty'));
    const env = { LEAT_STORE: `sqlite:${tempStore.folder}/empty/leat.db`, ...key };
    for (const words of [
      ['keys', 'list'],
      ['keys', 'rotate'],
      ['tenants', 'bootstrap', 'main'],
    ]) {
      const { code, output } = await runLeat(words, env);
      assert.equal(code, 1, words.join(' '));
      assert.match(output, /^[^\n]+\n$/);
    }
  });
});

async function tempStoreOf(t: TestContext): Promise<TempStore> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return tempStore;
}

async function running(
  t: TestContext,
  settings: Record<string, string> = {},
): Promise<{ tempStore: TempStore; leat: Running }> {
  const tempStore = await tempStoreOf(t);
  const leat = await startLeat(tempStore, settings);
  t.after(() => leat.kill());
  return { tempStore, leat };
}

async function endpointOf(t: TestContext, first = 204): Promise<Endpoint> {
  const endpoint = await startEndpoint(first);
  t.after(() => endpoint.close());
  return endpoint;
}

/** Holds requests until they are released as successes. */
function hold(endpoint: Endpoint): { release(): void } {
  const waiting: (() => void)[] = [];
  endpoint.respondWith((response) => {
    waiting.push(() => response.writeHead(204).end());
  });
  return {
    release: () => {
      endpoint.respondWith(204);
      for (const respond of waiting.splice(0)) respond();
    },
  };
}

/** Waits until a process that is shutting down accepts no more requests. */
async function waitForRefusal(leat: Running): Promise<void> {
  await waitFor('new requests to be refused', async () => {
    try {
      return (await leat.send('GET', '/api/v2/event-streams')).status === 503;
    } catch {
      return true;
    }
  });
}

async function isReady(url: string): Promise<boolean> {
  const response = await fetch(`${url}/readyz`).catch(() => undefined);
  return response?.ok === true;
}

async function stopped(child: Running['child']): Promise<void> {
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  await closed;
  assert.equal(child.exitCode, 0);
}

/** Returns id and secret as the command line prints them. */
function credentialsIn(output: string): string[] {
  return [/\bid\s+(?<id>\S+)/, /\bsecret\s+(?<secret>\S+)$/m].map(
    (pattern) => pattern.exec(output)?.[1] ?? '',
  );
}

/** A client of the server under a name that DNS does not know. */
function visitor(port: number, host: string) {
  const request = (method: string, path: string, token: string, body?: object) => {
    const text = body === undefined ? '' : JSON.stringify(body);
    const head = [
      `${method} ${path} HTTP/1.1`,
      `Host: ${host}`,
      ...(token === '' ? [] : [`Authorization: Bearer ${token}`]),
      ...(text === '' ? [] : ['Content-Type: application/json']),
      `Content-Length: ${Buffer.byteLength(text)}`,
    ];
    return exchange(port, `${head.join('\r\n')}\r\n\r\n${text}`);
  };
  return {
    request,
    token: async (id: string, secret: string): Promise<string> => {
      const response = await request('POST', '/oauth/token', '', {
        grant_type: 'client_credentials',
        audience: '/api/v2/',
        client_id: id,
        client_secret: secret,
      });
      assert.equal(response.status, 200, response.body);
      return (JSON.parse(response.body) as { access_token: string }).access_token;
    },
  };
}
