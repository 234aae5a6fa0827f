import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { globalAgent, request } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { connect as connectSecurely, type SecureVersion, type TLSSocket } from 'node:tls';
import { promisify } from 'node:util';
import pino from 'pino';
import { systemClock } from '../../src/clock.ts';
import { type Config, limits } from '../../src/config.ts';
import type { Clock } from '../../src/core/clock.ts';
import { StartRefused } from '../../src/core/errors.ts';
import { dayMs } from '../../src/core/units.ts';
import { type Issuer, issuerFor, startMessageService } from '../../src/program/message-service.ts';
import { type Service, type ServiceDeps, startService } from '../../src/program/service.ts';
import { authority, expired, ofAnotherHost, selfSigned, trusted } from '../helpers/certificates.ts';
import { createManualClock } from '../helpers/clock.ts';
import { readToEnd } from '../helpers/exchange.ts';
import {
  bootstrapClient,
  end,
  freePort,
  createTempStore,
  type TempStore,
  runLeat,
  spawnLeat,
  waitFor,
  storeEnvironment,
} from '../helpers/leat.ts';
import { configOf, depsOf, hurriedClock, sendHead } from './fixture.ts';

describe('a program with LEAT_TLS=local', () => {
  let tempStore: TempStore;
  let port: number;
  let messagesPort: number;
  let program: ReturnType<typeof spawnLeat>;
  let ca: string;
  before(async () => {
    tempStore = await createTempStore();
    [port, messagesPort] = [await freePort(), await freePort()];
    program = await startProgram(tempStore, 'start', { port, messagesPort });
    ca = await readFile(authorityFile(tempStore), 'utf8');
  });
  after(async () => {
    await stop(program);
    await tempStore.remove();
  });

  test('LEAT_TLS=local: prints the authority to trust and URLs with https', () => {
    const output = program.output();
    assert.ok(output.includes(`\nNODE_EXTRA_CA_CERTS=${authorityFile(tempStore)}\n`), output);
    assert.ok(output.includes(`https://127.0.0.1:${port}/api/v2\n`), output);
    assert.ok(output.includes(`  reference        https://127.0.0.1:${port}/docs\n`), output);
    assert.ok(output.includes(`  console          https://localhost:${port}/console/\n`), output);
    assert.doesNotMatch(output, /plain HTTP/);
  });

  test('LEAT_TLS=local: serves a client that trusts only its authority', async () => {
    for (const host of ['localhost', '127.0.0.1']) {
      const health = await ask({ host, port, ca, path: '/healthz' });
      assert.equal(health.status, 200);
    }
    const token = await tokenAt({ port, ca });
    const { iss } = JSON.parse(atob(token.split('.')[1] ?? '')) as { iss: string };
    assert.equal(iss, `https://localhost:${port}/`);
    const headers = { authorization: `Bearer ${token}` };
    const streams = await ask({ port, ca, path: '/api/v2/event-streams', headers });
    assert.equal(streams.status, 200);
    const discovery = await ask({ port, ca, path: '/.well-known/openid-configuration' });
    assert.ok(discovery.text.includes(`"https://localhost:${port}/oauth/token"`));
  });

  test('LEAT_TLS=local: a client that does not trust the authority refuses to connect', async () => {
    const code = 'UNABLE_TO_VERIFY_LEAF_SIGNATURE';
    await assert.rejects(ask({ port, path: '/healthz' }), { code });
    await assert.rejects(ask({ port, ca: authority, path: '/healthz' }), { code });
  });

  test('LEAT_TLS=local: fetch succeeds in a process with NODE_EXTRA_CA_CERTS', async () => {
    const line = /NODE_EXTRA_CA_CERTS=.*/.exec(program.output())?.[0] ?? '';
    const file = line.slice(line.indexOf('=') + 1);
    assert.equal(await fetchInProcess(port, { NODE_EXTRA_CA_CERTS: file }), '200');
    await assert.rejects(fetchInProcess(port, {}), /UNABLE_TO_VERIFY_LEAF_SIGNATURE/);
  });

  test('LEAT_TLS=local: the message API fetches the keys', async () => {
    const audience = 'https://messages.example.com';
    const response = await fetch(`http://127.0.0.1:${messagesPort}/api/messages/protected`, {
      headers: {
        authorization: `Bearer ${await tokenOfSample(tempStore, { port, ca, audience })}`,
      },
    });
    assert.equal(response.status, 200, program.output());
  });

  for (const [version, isAccepted] of [
    ['TLSv1.1', false],
    ['TLSv1.2', true],
    ['TLSv1.3', true],
  ] as const) {
    test(
      `LEAT_TLS=local: ${isAccepted ? 'accepts' : 'rejects'} ${version}`,
      { tags: ['long'] },
      async () => {
        const protocol = await protocolAt({ port, ca, version }).catch(() => undefined);
        assert.equal(protocol, isAccepted ? version : undefined);
      },
    );
  }

  for (const [ciphers, isAccepted] of [
    ['ECDHE-ECDSA-AES128-GCM-SHA256', true],
    ['ECDHE-ECDSA-CHACHA20-POLY1305', true],
    ['ECDHE-ECDSA-AES128-SHA', false],
    ['ECDHE-ECDSA-AES256-SHA384', false],
    ['ECDHE-ECDSA-ARIA256-GCM-SHA384', false],
  ] as const) {
    test(`LEAT_TLS=local: ${isAccepted ? 'accepts' : 'rejects'} ${ciphers} with TLS 1.2`, async () => {
      const accepted = await handshake({ port, ca }, 'TLSv1.2', ciphers).then(
        (socket) => {
          socket.destroy();
          return true;
        },
        () => false,
      );
      assert.equal(accepted, isAccepted);
    });
  }

  test('LEAT_TLS=local: rejects the renegotiation of an open connection', async () => {
    const socket = await handshake({ port, ca }, 'TLSv1.2');
    socket.on('error', () => undefined);
    const result = await new Promise<Error | null>((resolve) => {
      socket.once('close', () => resolve(new Error('closed')));
      socket.renegotiate({}, resolve);
    });
    assert.ok(result instanceof Error);
    socket.destroy();
  });

  test('LEAT_TLS=local: invalid requests get the same responses as without TLS', async () => {
    const host = 'Host: localhost\r\n';
    const next = `GET /healthz HTTP/1.1\r\n${host}\r\n`;
    for (const [sent, statuses] of [
      ['GET /healthz HTTP/1.1\r\n\r\n', [400]],
      [`GET /healthz HTTP/1.1\r\n${host}Expect: x\r\n\r\n`, [417]],
      [`GET /healthz HTTP/1.1\r\n${host}X: ${'x'.repeat(20_000)}\r\n\r\n`, [431]],
      [`POST /x HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, [501]],
      [`CONNECT a:1 HTTP/1.1\r\n${host}\r\n`, [405]],
      [`${next}nonsense\r\n\r\n`, [200, 400]],
    ] as const) {
      const socket = connectSecurely({ port, host: '127.0.0.1', ca, servername: 'localhost' });
      await once(socket, 'secureConnect');
      assert.deepEqual((await readToEnd(socket, sent + next)).statuses, statuses);
    }
  });

  test('LEAT_TLS=local: closes a connection without TLS and still serves others', async () => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const closed = once(socket, 'close');
    let received = '';
    socket.on('data', (chunk) => (received += chunk.toString('latin1')));
    await closed;
    assert.doesNotMatch(received, /HTTP\/1/);
    assert.equal((await ask({ port, ca, path: '/healthz' })).status, 200);
  });
});

test('a service with LEAT_TLS=local on 0.0.0.0 has a URL that its certificate names', async (t) => {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const port = await freePort();
  const env = { ...settingsOf(tempStore), LEAT_TLS: 'local', LEAT_HOST: '0.0.0.0' };
  const service = await startService(depsOf(configOf(env, port)));
  t.after(() => service.stop());
  const ca = await readFile(authorityFile(tempStore), 'utf8');
  const { hostname: host } = new URL(service.url);
  assert.equal((await ask({ host, port, ca, path: '/healthz' })).status, 200);
});

describe('the files of LEAT_TLS=local', () => {
  test(
    'the files of LEAT_TLS=local are reused; another domain has another authority, which is logged',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const port = await freePort();
      await stop(await startProgram(tempStore, 'serve', { port }));
      const first = await filesOf(tempStore);
      const again = await startProgram(tempStore, 'serve', { port });
      assert.deepEqual(await filesOf(tempStore), first);
      assert.doesNotMatch(again.output(), /replaced/);
      await stop(again);

      const domain = 'leat.example.com';
      const moved = await startProgram(tempStore, 'serve', { port, LEAT_TENANT_DOMAIN: domain });
      t.after(() => stop(moved));
      const second = await filesOf(tempStore);
      assert.notEqual(second.ca, first.ca);
      assert.ok(
        moved
          .output()
          .includes(
            `the local certificate authority is replaced because it may not sign for ${domain}: clients must trust ${authorityFile(tempStore)} again`,
          ),
        moved.output(),
      );
      const health = await ask({ port, ca: second.ca, path: '/healthz', servername: domain });
      assert.equal(health.status, 200);
      const code = 'UNABLE_TO_VERIFY_LEAF_SIGNATURE';
      await assert.rejects(ask({ port, ca: first.ca, path: '/healthz' }), { code });
    },
  );

  test(
    'LEAT_TLS=local: a tenant with another domain is served within a minute, the first one too',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const port = await freePort();
      const clock = createCertificateClock();
      const env = { ...settingsOf(tempStore), LEAT_TLS: 'local' };
      const service = await startService({ ...depsOf(configOf(env, port)), clock });
      t.after(() => service.stop());
      const first = await readFile(authorityFile(tempStore), 'utf8');
      const created = await runLeat(['tenants', 'create', 'two', 'two.test'], env);
      assert.equal(created.code, 0, created.output);
      await clock.minute();
      const file = (): Promise<string> => readFile(authorityFile(tempStore), 'utf8');
      await waitFor('another authority', async () => (await file()) !== first);
      const ca = await file();
      for (const servername of ['two.test', 'sub.two.test', 'localhost']) {
        const served = async (): Promise<boolean> => {
          const response = await ask({ port, ca, path: '/healthz', servername }).catch(
            () => undefined,
          );
          return response?.status === 200;
        };
        if (servername === 'sub.two.test') assert.equal(await served(), false, 'no such tenant');
        else await waitFor(`${servername} to be served`, served);
      }
    },
  );

  test(
    'only the owner can read the private keys of LEAT_TLS=local',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      await stop(await startProgram(tempStore, 'serve', { port: await freePort() }));
      for (const name of ['tls-key.pem', 'tls-ca-key.pem']) {
        assert.equal((await stat(join(tempStore.folder, name))).mode & 0o777, 0o600);
      }
    },
  );
});

describe('a service with LEAT_TLS_CERT and LEAT_TLS_KEY', () => {
  test('LEAT_TLS_CERT: the service uses the certificate, and its issuer is https', async (t) => {
    const { service, port } = await startWith(t, trusted);
    assert.equal(service.url, `https://127.0.0.1:${port}`);
    assert.equal(service.authorityFile, undefined);
    const health = await ask({ port, ca: authority, path: '/healthz' });
    assert.equal(health.status, 200);
    const { text } = await ask({ port, ca: authority, path: '/.well-known/openid-configuration' });
    assert.ok(text.includes(`"issuer":"https://localhost:${port}/"`), text);
  });

  test('LEAT_TLS_CERT: every address of localhost has the certificate, also a renewed one', async (t) => {
    const clock = createCertificateClock();
    const { port, paths } = await startOnLocalhost(t, clock);
    const subjects = (): Promise<string[]> =>
      Promise.all(localhosts.map((host) => subjectAt({ port, host })));
    assert.deepEqual(await subjects(), ['trusted', 'trusted']);
    await writeFile(paths.cert, selfSigned.cert);
    await writeFile(paths.key, selfSigned.key);
    await clock.minute();
    await waitFor('the renewed certificate on every address', async () =>
      (await subjects()).every((subject) => subject === '127.0.0.1'),
    );
  });

  test('LEAT_TLS_CERT: the service runs on localhost although one of its addresses is unavailable', async (t) => {
    const { port } = await startOnLocalhost(t, systemClock, [...localhosts, '203.0.113.1']);
    assert.equal(await subjectAt({ port, host: '127.0.0.2' }), 'trusted');
  });

  test('LEAT_TLS_CERT: a request in progress on a further address gets its response before the stop', async (t) => {
    const { service, port } = await startOnLocalhost(t);
    const idle = await handshake({ port, host: '127.0.0.2' });
    const idleEnded = once(idle.resume(), 'close');
    const sent = request({
      ...targetOf({ port, host: '127.0.0.2', ca: authority, servername: 'localhost' }),
      path: '/oauth/token',
      method: 'POST',
      agent: false,
      headers: { 'content-type': 'application/x-www-form-urlencoded', expect: '100-continue' },
    });
    sent.flushHeaders();
    await once(sent, 'continue');

    const stopped = service.stop();
    await waitFor('the first address to be closed', () => isClosed({ port, host: '127.0.0.1' }));
    // The response needs the store.
    sent.end(clientCredentials().toString());
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    assert.equal(response.statusCode, 200);
    assert.equal(response.headers.connection, 'close');
    await once(response.resume(), 'end');
    await stopped;
    await idleEnded;
    assert.ok(await isClosed({ port, host: '127.0.0.2' }));
  });

  test('LEAT_TLS_CERT: a stop does not wait for a request on a further address that never ends', async (t) => {
    const { service, port } = await startOnLocalhost(t, hurriedClock);
    const stuck = await handshake({ port, host: '127.0.0.2' });
    const gone = once(stuck, 'close');
    stuck.on('error', () => {});
    await sendHead(stuck, 'application/json', 9);
    await service.stop();
    await gone;
  });

  test('LEAT_TLS_CERT: no warning of plain HTTP on an address that is not loopback', async (t) => {
    const secure = await startWith(t, trusted, { LEAT_HOST: '0.0.0.0' });
    assert.deepEqual(secure.logged(), []);
  });

  test('LEAT_TLS_CERT: an expired certificate is used, with a warning', async (t) => {
    const { port, logged } = await startWith(t, expired);
    assert.match(logged().join(), /^LEAT_TLS_CERT: the certificate expired 2026-11-20T/);
    const code = 'CERT_HAS_EXPIRED';
    await assert.rejects(ask({ port, ca: authority, path: '/healthz' }), { code });
  });

  test('LEAT_TLS_CERT: a renewed certificate is loaded within a minute, once its key fits', async (t) => {
    const clock = createCertificateClock();
    const { port, paths, logged } = await startWith(t, trusted, {}, { clock });
    const subject = async (): Promise<string> => subjectAt({ port, host: '127.0.0.1' });
    assert.equal(await subject(), 'trusted');

    await writeFile(paths.cert, selfSigned.cert);
    await clock.minute();
    await waitFor('the warning', () => logged().some((line) => /former one stays/.test(line)));
    assert.equal(await subject(), 'trusted');

    await writeFile(paths.key, selfSigned.key);
    await clock.minute();
    await waitFor('the renewed certificate', async () => (await subject()) === '127.0.0.1');
  });

  test(
    'LEAT_TLS_CERT: a stop does not wait for a connection without a handshake',
    { tags: ['long'] },
    async (t) => {
      const { service, port } = await startWith(t, trusted);
      const client = connect(port, '127.0.0.1');
      client.on('error', () => {});
      await once(client, 'connect');
      await service.stop();
    },
  );

  test('the message API trusts the certificate of the service for any host name', async (t) => {
    const { port, config, paths } = await startWith(t, ofAnotherHost);
    const token = await tokenAt({ port, ca: authority, servername: 'example.com' });
    const issuer = issuerFor(noIssuer, config);
    assert.equal(await statusOfMessages(t, issuer, token), 200);

    const other = `${paths.cert}.other`;
    await writeFile(other, trusted.cert);
    assert.equal(await statusOfMessages(t, { ...issuer, keySetCertificate: other }, token), 500);
  });

  test('the message API trusts the service before and after a renewed certificate is loaded', async (t) => {
    const clock = createCertificateClock();
    const { port, config, paths } = await startWith(t, trusted, {}, { clock });
    const token = await tokenAt({ port, ca: authority });
    const days = createDaysClock();
    const statusOf = await startMessages(t, issuerFor(noIssuer, config), days);
    const requestLater = (): Promise<number> => {
      days.pass(2);
      // A keep-alive connection would still have the former certificate.
      globalAgent.destroy();
      return statusOf(token);
    };
    const subject = async (): Promise<string> => subjectAt({ port, host: '127.0.0.1' });

    await writeFile(paths.cert, selfSigned.cert);
    await writeFile(paths.key, selfSigned.key);
    assert.equal(await statusOf(token), 200, 'first request');
    assert.equal(await requestLater(), 200, 'second request');
    assert.equal(await subject(), 'trusted');

    await clock.minute();
    await waitFor('the renewed certificate', async () => (await subject()) === '127.0.0.1');
    assert.equal(await requestLater(), 200, 'with the renewed certificate');
  });

  const cases: [fault: string, files: Partial<Record<'cert' | 'key', string>>, line: RegExp][] = [
    ['a key of another', { ...trusted, key: selfSigned.key }, /^LEAT_TLS_KEY: .+ does not match/],
    ['a certificate that is not there', { key: trusted.key }, /^LEAT_TLS_CERT: .+ \(ENOENT\)/],
    ['a key that is not there', { cert: trusted.cert }, /^LEAT_TLS_KEY: .+ \(ENOENT\)/],
    ['no certificate', { ...trusted, cert: 'x' }, /^LEAT_TLS_CERT: .+ holds no certificate/],
    ['a key as certificate', { ...trusted, cert: trusted.key }, /^LEAT_TLS_CERT: .+ no certif/],
    [
      'a broken certificate',
      { ...trusted, cert: broken(trusted.cert) },
      /^LEAT_TLS_CERT: .+ holds/,
    ],
    ['a broken chain', { ...trusted, cert: trusted.cert + broken(authority) }, /^LEAT_TLS_CERT: /],
    ['no key', { ...trusted, key: trusted.cert }, /^LEAT_TLS_KEY: .+ holds no private key in PEM/],
    ['an encrypted key', { ...trusted, key: encryptedKey() }, /^LEAT_TLS_KEY: .+ encrypted/],
  ];
  for (const [fault, files, line] of cases) {
    test(`LEAT_TLS_CERT: a start with ${fault} fails with one line before it changes anything`, async (t) => {
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const { env } = await placeFiles(tempStore, files);
      const config = configOf(env, await freePort());
      await assert.rejects(startService(depsOf(config)), (error: unknown) => {
        assert.ok(error instanceof StartRefused);
        assert.match(error.message, line);
        assert.match(error.message, /, for example LEAT_TLS_(?:CERT|KEY)=\/etc\/leat\/.+\.pem$/);
        assert.doesNotMatch(error.message, /\n/);
        return true;
      });
    });
  }

  test('LEAT_TLS_KEY: a start with a key of another certificate prints one line and exits with 1', async (t) => {
    const tempStore = await createTempStore();
    t.after(() => tempStore.remove());
    const { env } = await placeFiles(tempStore, { ...trusted, key: selfSigned.key });
    const port = { LEAT_PORT: String(await freePort()) };
    const { code, output } = await runLeat(['serve'], {
      ...settingsOf(tempStore),
      ...env,
      ...port,
    });
    assert.equal(code, 1);
    assert.match(output, /^LEAT_TLS_KEY: "[^"]+" does not match the certificate in [^\n]+\n$/);
  });
});

/** Loopback addresses that every machine has. */
const localhosts = ['127.0.0.1', '127.0.0.2'];

const noIssuer = { issuerDomain: undefined };

interface Target {
  readonly port: number;
  readonly host?: string;
  readonly ca?: string;
  readonly servername?: string;
}

interface Request extends Target {
  readonly path: string;
  readonly headers?: IncomingHttpHeaders;
  readonly body?: string;
}

/** Sends one request on a new connection that trusts `ca`, else the authorities of Node. */
async function ask(requested: Request): Promise<{ status: number | undefined; text: string }> {
  const { body, path, headers = {} } = requested;
  const method = body === undefined ? 'GET' : 'POST';
  const sent = request({ ...targetOf(requested), path, method, agent: false, headers });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode, text };
}

function targetOf({ port, host = 'localhost', ca, servername }: Target): object {
  const trust = ca === undefined ? {} : { ca };
  return { port, host, ...trust, ...(servername === undefined ? {} : { servername }) };
}

async function tokenAt(
  target: Target,
  client = bootstrapClient,
  audience = '/api/v2/',
): Promise<string> {
  const body = clientCredentials(client, audience);
  const headers = {
    host: `localhost:${target.port}`,
    'content-type': 'application/x-www-form-urlencoded',
  };
  const response = await ask({ ...target, path: '/oauth/token', headers, body: body.toString() });
  assert.equal(response.status, 200, response.text);
  return (JSON.parse(response.text) as { access_token: string }).access_token;
}

function clientCredentials(
  { id, secret } = bootstrapClient,
  audience = '/api/v2/',
): URLSearchParams {
  return new URLSearchParams({
    grant_type: 'client_credentials',
    audience,
    client_id: id,
    client_secret: secret,
  });
}

/** Returns a token of the sample client, whose credentials the first start writes to a file. */
async function tokenOfSample(
  { folder }: TempStore,
  { audience, ...target }: Target & { audience: string },
): Promise<string> {
  const text = await readFile(join(folder, 'bootstrap.json'), 'utf8');
  const { messages_sample: sample } = JSON.parse(text) as {
    messages_sample: { client_id: string; client_secret: string };
  };
  return tokenAt(target, { id: sample.client_id, secret: sample.client_secret }, audience);
}

async function handshake(
  target: Target,
  version?: SecureVersion,
  ciphers?: string,
): Promise<TLSSocket> {
  const versions = version === undefined ? {} : { minVersion: version, maxVersion: version };
  // OpenSSL offers older versions only with this.
  const list = version === 'TLSv1.1' ? 'DEFAULT@SECLEVEL=0' : ciphers;
  const offered = list === undefined ? {} : { ciphers: list };
  const untrusted = target.ca === undefined ? { rejectUnauthorized: false } : {};
  const socket = connectSecurely({ ...targetOf(target), ...versions, ...offered, ...untrusted });
  await once(socket, 'secureConnect');
  return socket;
}

async function protocolAt({
  version,
  ...target
}: Target & { version: SecureVersion }): Promise<string | null> {
  const socket = await handshake(target, version);
  const protocol = socket.getProtocol();
  socket.destroy();
  return protocol;
}

async function subjectAt(target: Target): Promise<string> {
  const socket = await handshake(target);
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return [CN].flat().join();
}

/** Returns whether an address refuses connections. */
async function isClosed({ port, host }: Required<Pick<Target, 'port' | 'host'>>): Promise<boolean> {
  const socket = connect(port, host);
  try {
    await once(socket, 'connect');
    return false;
  } catch {
    return true;
  } finally {
    socket.destroy();
  }
}

async function fetchInProcess(port: number, env: Record<string, string>): Promise<string> {
  const script = `fetch('https://localhost:${port}/healthz').then(
    ({ status }) => process.stdout.write(String(status)),
    ({ cause }) => { console.error(cause.code); process.exitCode = 1; });`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], { env });
  return stdout;
}

/** Starts the program and waits until it has printed that it is up. */
async function startProgram(
  tempStore: TempStore,
  command: 'start' | 'serve',
  { port, messagesPort, ...env }: { port: number; messagesPort?: number; [name: string]: unknown },
): Promise<ReturnType<typeof spawnLeat>> {
  const program = spawnLeat([command], {
    ...settingsOf(tempStore),
    LEAT_TLS: 'local',
    LEAT_PORT: String(port),
    ...(messagesPort === undefined ? {} : { PORT: String(messagesPort) }),
    TOKEN_AUDIENCE: 'https://messages.example.com',
    ...(env as Record<string, string>),
  });
  const upText = command === 'start' ? ' is up.\n' : 'NODE_EXTRA_CA_CERTS=';
  const { child, output } = program;
  try {
    await waitFor('the program to be up', () => {
      assert.equal(child.exitCode ?? child.signalCode, null, output());
      return output().includes(upText);
    });
  } catch (error) {
    await end(child, 'SIGKILL');
    throw error;
  }
  return program;
}

function settingsOf(tempStore: TempStore): Record<string, string> {
  return {
    ...storeEnvironment(tempStore),
    LEAT_BOOTSTRAP_CLIENT_ID: bootstrapClient.id,
    LEAT_BOOTSTRAP_CLIENT_SECRET: bootstrapClient.secret,
    LEAT_LOG_LEVEL: 'warn',
  };
}

async function stop({ child }: ReturnType<typeof spawnLeat>): Promise<void> {
  assert.equal(await end(child, 'SIGINT'), 0);
}

function authorityFile({ folder }: TempStore): string {
  return join(folder, 'tls-ca.pem');
}

async function filesOf({ folder }: TempStore): Promise<Record<'ca' | 'cert' | 'key', string>> {
  const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8');
  return {
    ca: await read('tls-ca.pem'),
    cert: await read('tls-cert.pem'),
    key: await read('tls-key.pem'),
  };
}

interface Started {
  readonly service: Service;
  readonly config: Config;
  readonly port: number;
  readonly paths: Record<'cert' | 'key', string>;
  /** Messages of warnings and errors. */
  logged(): readonly string[];
}

/** Starts a service in memory on a `localhost` with several addresses. */
async function startOnLocalhost(
  t: TestContext,
  clock: Clock = systemClock,
  addresses: readonly string[] = localhosts,
): Promise<Started> {
  const deps = { clock, addressesOf: async () => addresses };
  return startWith(t, trusted, { LEAT_HOST: 'localhost' }, deps);
}

/** Starts a service in memory with a certificate. */
async function startWith(
  t: TestContext,
  files: { readonly cert: string; readonly key: string },
  env: Readonly<Record<string, string>> = {},
  deps: Partial<Pick<ServiceDeps, 'clock' | 'addressesOf'>> = {},
): Promise<Started> {
  const tempStore = await createTempStore();
  const placed = await placeFiles(tempStore, files);
  const port = await freePort();
  const config = configOf({ ...placed.env, ...env }, port);
  const lines: string[] = [];
  const write = (line: string): void => {
    lines.push((JSON.parse(line) as { msg: string }).msg);
  };
  const service = await startService({
    ...depsOf(config),
    ...deps,
    log: pino({ level: 'warn' }, { write }),
  });
  t.after(async () => {
    await service.stop().catch(() => {});
    await tempStore.remove();
  });
  return { service, config, port, paths: placed.paths, logged: () => lines };
}

async function placeFiles(
  { folder }: TempStore,
  files: Partial<Record<'cert' | 'key', string>>,
): Promise<{ paths: Record<'cert' | 'key', string>; env: Record<string, string> }> {
  const paths = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  for (const name of ['cert', 'key'] as const) {
    const text = files[name];
    if (text !== undefined) await writeFile(paths[name], text);
  }
  return { paths, env: { LEAT_TLS_CERT: paths.cert, LEAT_TLS_KEY: paths.key } };
}

/** Creates a system clock whose certificate polls run only in `minute`. */
function createCertificateClock(): Clock & { minute(): Promise<void> } {
  const manual = createManualClock();
  return {
    ...systemClock,
    after: (delayMs, action) =>
      (delayMs === limits.tls.everyMs ? manual : systemClock).after(delayMs, action),
    minute: () => manual.advance(limits.tls.everyMs),
  };
}

/** Creates a clock whose elapsed time can advance by days, so that fetched keys age and tokens do not. */
function createDaysClock(): Clock & { pass(days: number): void } {
  let passedMs = 0;
  return {
    ...systemClock,
    elapsedMs: () => systemClock.elapsedMs() + passedMs,
    pass: (days) => {
      passedMs += days * dayMs;
    },
  };
}

/** Returns the status of a new message API for a token. */
async function statusOfMessages(t: TestContext, issuer: Issuer, token: string): Promise<number> {
  const statusOf = await startMessages(t, issuer);
  return statusOf(token);
}

/** Starts a message API; returns a function from a token to the status of its response. */
async function startMessages(
  t: TestContext,
  issuer: Issuer,
  clock: Clock = systemClock,
): Promise<(token: string) => Promise<number>> {
  const settings = {
    host: '127.0.0.1',
    port: await freePort(),
    portVariable: 'PORT',
    origin: 'https://app.example.com',
    audience: `${issuer.issuer}api/v2/`,
    claims: undefined,
    maxConnectionsPerAddress: 1000,
    keepAliveSeconds: 650,
    trustProxy: [],
  };
  const log = pino({ level: 'silent' });
  const messages = await startMessageService({ settings, issuer, clock, log });
  t.after(() => messages.stop());
  return async (token) => {
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(`${messages.url}/api/messages/protected`, { headers })).status;
  };
}

/** Returns a PEM whose content is corrupted. */
function broken(pem: string): string {
  return pem.replace(/(?<=-----\n).{40}/, 'A'.repeat(40));
}

function encryptedKey(): string {
  const options = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'p' } as const;
  return createPrivateKey(trusted.key).export(options);
}
