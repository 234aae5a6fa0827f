import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { decodeProtectedHeader } from 'jose';
import { endWithProcess } from '../helpers/children.ts';
import { authority } from '../helpers/certificates.ts';
import {
  fetchToken,
  freePort,
  createTempStore,
  type TempStore,
  type Running,
  runLeat,
  startLeat,
  storeEnvironment,
} from '../helpers/leat.ts';
import { startTlsProxy, type TlsProxy } from '../helpers/tls-proxy.ts';

/** An Express app that accepts Leat's tokens with the middleware of Auth0. */

const audience = 'https://guarded.example.com';
const otherAudience = 'https://other.example.com';
const permission = 'read:admin-messages';

interface Credentials {
  readonly id: string;
  readonly secret: string;
}

let tempStore: TempStore;
let proxy: TlsProxy;
let leat: Running;
let api: GuardedApi;
let admin: Credentials;
let reader: Credentials;

before(async () => {
  tempStore = await createTempStore();
  await writeFile(caFile(), authority);
  proxy = await startTlsProxy(await freePort());
  leat = await startBehindProxy();
  for (const identifier of [audience, otherAudience]) {
    await create('/resource-servers', {
      identifier,
      scopes: [{ value: permission }],
      enforce_policies: true,
      token_dialect: 'access_token_authz',
    });
  }
  admin = await createClient([permission]);
  reader = await createClient([]);
  api = await startGuardedApi();
});
after(async () => {
  await api?.close();
  await leat?.kill();
  await proxy?.close();
  await tempStore?.remove();
});

/** Its issuer begins with `https://`, as the proxy in front of it reports. */
function startBehindProxy(): Promise<Running> {
  return startLeat(tempStore, {
    LEAT_PORT: String(proxy.targetPort),
    LEAT_TRUST_PROXY: '127.0.0.1',
    LEAT_TENANT_DOMAIN: proxy.domain,
  });
}

function caFile(): string {
  return join(tempStore.folder, 'ca.pem');
}

async function create(path: string, body: object): Promise<Record<string, string>> {
  const response = await leat.send('POST', `/api/v2${path}`, body);
  assert.equal(response.status, 201, `${path}: ${await response.clone().text()}`);
  return (await response.json()) as Record<string, string>;
}

/** Creates a client that may get tokens for both APIs, with this scope. */
async function createClient(scope: readonly string[]): Promise<Credentials> {
  const { client_id: id = '', client_secret: secret = '' } = await create('/clients', {
    name: 'caller',
  });
  for (const each of [audience, otherAudience]) {
    await create('/client-grants', { client_id: id, audience: each, scope });
  }
  return { id, secret };
}

interface GuardedApi {
  /** The status, and with 200 the claims that the middleware has read. */
  get(
    path: string,
    token?: string,
  ): Promise<{ status: number; challenge: string | null; claims: unknown }>;
  close(): Promise<void>;
}

async function startGuardedApi(): Promise<GuardedApi> {
  const program = new URL('process/guarded-api.ts', import.meta.url);
  const child: ChildProcess = fork(program, [`https://${proxy.domain}/`, audience], {
    // With NODE_ENV=test Express prints no stack of a refusal.
    env: { NODE_EXTRA_CA_CERTS: caFile(), NODE_ENV: 'test' },
  });
  endWithProcess(child);
  const ended = once(child, 'close');
  const early = ended.then(() => assert.fail('the guarded API ended'));
  const [port] = (await Promise.race([once(child, 'message'), early])) as [number];
  return {
    get: async (path, token) => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
      const { status } = response;
      const challenge = response.headers.get('www-authenticate');
      const text = await response.text();
      return { status, challenge, claims: status === 200 ? JSON.parse(text) : undefined };
    },
    close: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

const paths = ['/protected', '/scope', '/permission'];

function statuses(token?: string): Promise<number[]> {
  return Promise.all(paths.map(async (path) => (await api.get(path, token)).status));
}

describe('an Express app behind express-oauth2-jwt-bearer', () => {
  test('an Express app behind express-oauth2-jwt-bearer accepts a token of Leat, with its scope and its permissions', async () => {
    const token = await fetchToken(leat.url, admin, audience);
    assert.deepEqual(await statuses(token), [200, 200, 200]);
    const { claims } = await api.get('/permission', token);
    const { iss, aud, sub, azp, scope, permissions } = claims as Record<string, unknown>;
    assert.deepEqual([iss, aud], [`https://${proxy.domain}/`, audience]);
    assert.deepEqual([sub, azp], [`${admin.id}@clients`, admin.id]);
    assert.deepEqual([scope, permissions], [permission, [permission]]);
  });

  test('an Express app behind express-oauth2-jwt-bearer accepts a token without scopes only where nothing is required', async () => {
    const token = await fetchToken(leat.url, reader, audience);
    // `claimIncludes` calls a token without the value invalid.
    assert.deepEqual(await statuses(token), [200, 403, 401]);
    const { challenge } = await api.get('/scope', token);
    assert.match(challenge ?? '', /error="insufficient_scope"/);
  });

  test('an Express app behind express-oauth2-jwt-bearer refuses a request without a token', async () => {
    assert.deepEqual(await statuses(), [401, 401, 401]);
  });

  test('an Express app behind express-oauth2-jwt-bearer refuses a token that Leat made for another API, or for itself', async () => {
    const other = await fetchToken(leat.url, admin, otherAudience);
    for (const token of [other, leat.token]) {
      assert.deepEqual(await statuses(token), [401, 401, 401]);
    }
    const { challenge } = await api.get('/protected', other);
    assert.match(challenge ?? '', /Unexpected 'aud' value/);
  });

  test('an Express app behind express-oauth2-jwt-bearer refuses a token whose claims were changed', async () => {
    const token = await fetchToken(leat.url, reader, audience);
    const [header = '', payload = '', signature = ''] = token.split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
    const better = { ...claims, scope: permission, permissions: [permission] };
    const changed = Buffer.from(JSON.stringify(better)).toString('base64url');
    const forged = [header, changed, signature].join('.');
    assert.deepEqual(await statuses(forged), [401, 401, 401]);
    const { challenge } = await api.get('/protected', forged);
    assert.match(challenge ?? '', /signature verification failed/);
  });

  test(
    'an Express app behind express-oauth2-jwt-bearer accepts the tokens of the old key and of the new one after a rotation',
    { tags: ['long'] },
    async () => {
      const former = await fetchToken(leat.url, admin, audience);
      await leat.stop();
      const rotated = await runLeat(['keys', 'rotate', '--now'], storeEnvironment(tempStore));
      assert.equal(rotated.code, 0, rotated.output);
      leat = await startBehindProxy();
      const latter = await fetchToken(leat.url, admin, audience);
      assert.notEqual(decodeProtectedHeader(latter).kid, decodeProtectedHeader(former).kid);

      // Restarted: the middleware fetches keys for an unknown kid at most every 30 s.
      await api.close();
      api = await startGuardedApi();
      assert.deepEqual(await statuses(former), [200, 200, 200]);
      assert.deepEqual(await statuses(latter), [200, 200, 200]);
    },
  );
});
