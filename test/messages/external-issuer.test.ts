import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test, type TestContext } from 'node:test';
import { decodeJwt, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { createRemoteKeys, keySetAt } from '../../src/auth/remote-keys.ts';
import { createMessageServer } from '../../src/messages/server.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';
import {
  type AuthorizationServer,
  type AuthorizationServerOptions,
  makeSigningKey,
  startAuthorizationServer,
  trustAuthority,
} from '../helpers/authorization-server.ts';
import { authority, expired, ofAnotherHost, selfSigned, trusted } from '../helpers/certificates.ts';
import { freePort, spawnLeat, waitFor } from '../helpers/leat.ts';
import { connections } from './fixture.ts';

/** The message API with tokens and keys of an authorization server other than Leat. */

const audience = 'https://messages.example.com';
const origin = 'http://localhost:4040';
const signingKey = makeSigningKey();

const publicMessage = { text: 'This is a public message.' };
const protectedMessage = { text: 'This is a protected message.' };
const adminMessage = { text: 'This is an admin message.' };
const badCredentials = { message: 'Bad credentials' };
const unverifiable = { message: 'Unable to verify credentials' };
const denied = { message: 'Permission denied' };

let folder: string;
let caFile: string;

before(async () => {
  trustAuthority();
  folder = await mkdtemp(join(tmpdir(), 'leat-'));
  caFile = join(folder, 'ca.pem');
  await writeFile(caFile, authority);
});
after(() => rm(folder, { recursive: true, force: true }));

async function startIssuer(
  t: TestContext,
  options?: AuthorizationServerOptions,
): Promise<AuthorizationServer> {
  const issuer = await startAuthorizationServer(options);
  t.after(issuer.close);
  return issuer;
}

/** Starts `leat messages` for the tokens of an authorization server; returns its URL. */
async function startMessages(
  t: TestContext,
  { domain }: AuthorizationServer,
  trust: Readonly<Record<string, string>> = { NODE_EXTRA_CA_CERTS: caFile },
): Promise<string> {
  const port = await freePort();
  const { child, output } = spawnLeat(
    ['messages'],
    {
      PORT: String(port),
      CLIENT_ORIGIN_URL: origin,
      TOKEN_AUDIENCE: audience,
      TOKEN_ISSUER_DOMAIN: domain,
      ...trust,
    },
    { cwd: folder },
  );
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const url = `http://127.0.0.1:${port}`;
  await waitFor('the message API', () => {
    assert.equal(child.exitCode, null, output());
    return output().includes(`${url}/api/messages/public`);
  });
  return url;
}

type Message = 'public' | 'protected' | 'admin';
type StatusAndBody = readonly [status: number, content: unknown];

async function requestMessage(
  url: string,
  message: Message,
  token?: string,
): Promise<StatusAndBody> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(`${url}/api/messages/${message}`, { headers });
  assert.equal(response.headers.get('access-control-allow-origin'), origin);
  return [response.status, await response.json()];
}

describe('token of an external authorization server', () => {
  test('an external token opens the protected message, and with the permission the admin message', async (t) => {
    const issuer = await startIssuer(t);
    const url = await startMessages(t, issuer);
    const reader = await issuer.token({ audience, client: 'reader' });
    const admin = await issuer.token({ audience, client: 'admin' });

    assert.deepEqual(await requestMessage(url, 'protected', reader), [200, protectedMessage]);
    assert.deepEqual(await requestMessage(url, 'admin', reader), [403, denied]);
    assert.deepEqual(await requestMessage(url, 'protected', admin), [200, protectedMessage]);
    assert.deepEqual(await requestMessage(url, 'admin', admin), [200, adminMessage]);
    assert.deepEqual(await requestMessage(url, 'public', admin), [200, publicMessage]);
  });

  test('the key set of an issuer may follow a 100 Continue', async (t) => {
    const issuer = await startIssuer(t, { sendsContinue: true });
    const url = await startMessages(t, issuer);
    const token = await issuer.token({ audience, client: 'reader' });
    assert.deepEqual(await requestMessage(url, 'protected', token), [200, protectedMessage]);
  });

  test('an external token for another API is rejected', async (t) => {
    const issuer = await startIssuer(t);
    const url = await startMessages(t, issuer);
    for (const other of [`${audience}/`, 'https://elsewhere.example.com']) {
      const token = await issuer.token({ audience: other, client: 'admin' });
      assert.deepEqual(await requestMessage(url, 'admin', token), [401, badCredentials], other);
    }
  });

  test('a token of another issuer is rejected, even with the same key', async (t) => {
    const issuer = await startIssuer(t, { privateKey: signingKey });
    const url = await startMessages(t, issuer);
    const withoutSlash = issuer.issuer.slice(0, -1);
    for (const options of [{}, { issuer: withoutSlash }, { issuer: issuer.issuer.toUpperCase() }]) {
      const other = await startIssuer(t, { privateKey: signingKey, ...options });
      const token = await other.token({ audience, client: 'admin' });
      assert.deepEqual(
        await requestMessage(url, 'protected', token),
        [401, badCredentials],
        other.issuer,
      );
      assert.equal(other.keySetFetches, 0, 'a token does not decide from where keys are fetched');
    }
    const own = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await requestMessage(url, 'protected', own), [200, protectedMessage]);
  });

  test('a token of an impostor with the same issuer and kid is rejected', async (t) => {
    const issuer = await startIssuer(t);
    const impostor = await startIssuer(t, { issuer: issuer.issuer });
    const url = await startMessages(t, issuer);
    const forged = await impostor.token({ audience, client: 'admin' });
    const own = await issuer.token({ audience, client: 'admin' });

    assert.deepEqual(await requestMessage(url, 'admin', forged), [401, badCredentials]);
    assert.deepEqual(await requestMessage(url, 'admin', own), [200, adminMessage]);
    assert.deepEqual(await requestMessage(url, 'admin', forged), [401, badCredentials]);
  });
});

describe('key set of an external authorization server', () => {
  test(
    'the key set is fetched for the first token, once for a burst of them',
    { tags: ['long'] },
    async (t) => {
      const issuer = await startIssuer(t);
      const url = await startMessages(t, issuer);
      const token = await issuer.token({ audience, client: 'admin' });
      await requestMessage(url, 'public', token);
      await requestMessage(url, 'admin');
      await requestMessage(url, 'admin', 'nonsense');
      assert.equal(issuer.keySetFetches, 0);

      const burst = Array.from({ length: 100 }, () => requestMessage(url, 'admin', token));
      for (const response of await Promise.all(burst)) {
        assert.deepEqual(response, [200, adminMessage]);
      }
      assert.equal(issuer.keySetFetches, 1);
    },
  );

  test('without a key set: 500 for a token that could be valid, 401 for any other', async (t) => {
    const issuer = await startIssuer(t, { privateKey: signingKey });
    const token = await issuer.token({ audience, client: 'admin' });
    const elsewhere = await issuer.token({ audience: `${audience}/`, client: 'admin' });
    issuer.goDown();
    const url = await startMessages(t, issuer);

    assert.deepEqual(await requestMessage(url, 'protected', token), [500, unverifiable]);
    assert.deepEqual(await requestMessage(url, 'admin', token), [500, unverifiable]);
    const invalid = { ...(await invalidTokens(token)), elsewhere };
    for (const [name, bad] of Object.entries(invalid)) {
      assert.deepEqual(await requestMessage(url, 'admin', bad), [401, badCredentials], name);
    }
    assert.deepEqual(await requestMessage(url, 'public', token), [200, publicMessage]);
    assert.deepEqual(await requestMessage(url, 'public'), [200, publicMessage]);
    assert.deepEqual(await requestMessage(url, 'admin'), [
      401,
      { message: 'Requires authentication' },
    ]);

    issuer.comeBack();
    const response = await waitFor('the keys', async () => {
      const now = await requestMessage(url, 'admin', token);
      if (now[0] === 500) assert.deepEqual(now[1], unverifiable);
      return now[0] !== 500 && now;
    });
    assert.deepEqual(response, [200, adminMessage]);
  });

  test('a cached key set verifies tokens while the server is down', async (t) => {
    const issuer = await startIssuer(t);
    const impostor = await startIssuer(t, { issuer: issuer.issuer });
    const url = await startMessages(t, issuer);
    const known = await issuer.token({ audience, client: 'reader' });
    const unseen = await issuer.token({ audience, client: 'admin' });
    const forged = await impostor.token({ audience, client: 'admin' });
    assert.deepEqual(await requestMessage(url, 'protected', known), [200, protectedMessage]);

    issuer.goDown();
    assert.deepEqual(await requestMessage(url, 'protected', known), [200, protectedMessage]);
    assert.deepEqual(await requestMessage(url, 'admin', unseen), [200, adminMessage]);
    assert.deepEqual(await requestMessage(url, 'admin', forged), [401, badCredentials]);
    assert.equal(issuer.keySetFetches, 1);
  });

  test('the key set is not fetched when the certificate is not trusted', async (t) => {
    const issuer = await startIssuer(t);
    const url = await startMessages(t, issuer, {});
    const token = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await requestMessage(url, 'admin', token), [500, unverifiable]);
    assert.deepEqual(await requestMessage(url, 'public', token), [200, publicMessage]);
    assert.equal(issuer.keySetFetches, 0, 'the handshake failed');
  });
});

/** Returns variants of a valid token that no key set can make valid. */
async function invalidTokens(valid: string): Promise<Readonly<Record<string, string>>> {
  const claims: JWTPayload = decodeJwt(valid);
  const withoutExpiry = Object.fromEntries(
    Object.entries(claims).filter(([name]) => name !== 'exp'),
  );
  const signed = (changed: JWTPayload, alg = 'RS256'): Promise<string> =>
    new SignJWT(changed).setProtectedHeader({ alg, kid: 'key-1' }).sign(signingKey);
  return {
    nonsense: 'nonsense',
    unsigned: new UnsecuredJWT(claims).encode(),
    'another algorithm': await signed(claims, 'PS256'),
    'a MAC instead of a signature': await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', kid: 'key-1' })
      .sign(Buffer.alloc(32, 1)),
    expired: await signed({ ...claims, exp: 1_000_000_000 }),
    'without an expiry': await signed(withoutExpiry),
    'not yet valid': await signed({ ...claims, nbf: 9_000_000_000 }),
    'another issuer': await signed({ ...claims, iss: 'https://elsewhere.example.com/' }),
  };
}

describe('age of an external key set', () => {
  let clock: ManualClock;
  let reported: string[];
  beforeEach(() => {
    clock = createManualClock(Date.now());
    reported = [];
  });

  /** Starts the message API in this process, on the manual clock. */
  async function openMessages(t: TestContext, issuer: AuthorizationServer): Promise<string> {
    const keys = createRemoteKeys(
      { fetch, clock, report: (error) => reported.push(String(error)) },
      keySetAt(`${issuer.issuer}.well-known/jwks.json`),
    );
    const server = createMessageServer({
      origin,
      trust: { issuer: issuer.issuer, audience, keys },
      connections,
      keepAliveSeconds: 650,
      log: { warn: (fields) => assert.fail(JSON.stringify(fields)) },
      clock,
      report: (error) => assert.fail(String(error)),
    });
    t.after(server.close);
    return `http://127.0.0.1:${await server.listen({ host: '127.0.0.1', port: 0 })}`;
  }

  test('a token of a new key is accepted after the key set was fetched again', async (t) => {
    const issuer = await startIssuer(t);
    const url = await openMessages(t, issuer);
    const former = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await requestMessage(url, 'admin', former), [200, adminMessage]);

    issuer.rotate();
    const rotated = await issuer.token({ audience, client: 'admin' });
    clock.move(29_999);
    assert.deepEqual(await requestMessage(url, 'admin', rotated), [401, badCredentials]);
    assert.equal(issuer.keySetFetches, 1, 'unknown kids do not trigger a fetch at once');
    assert.deepEqual(await requestMessage(url, 'admin', former), [200, adminMessage]);

    clock.move(1);
    assert.deepEqual(await requestMessage(url, 'admin', rotated), [200, adminMessage]);
    assert.equal(issuer.keySetFetches, 2);
    assert.deepEqual(
      await requestMessage(url, 'admin', former),
      [401, badCredentials],
      'its key was withdrawn',
    );
  });

  test('a token of a new key is unverifiable while the server is down', async (t) => {
    const issuer = await startIssuer(t);
    const url = await openMessages(t, issuer);
    const former = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await requestMessage(url, 'admin', former), [200, adminMessage]);

    issuer.rotate();
    const rotated = await issuer.token({ audience, client: 'admin' });
    issuer.goDown();
    clock.move(30_000);
    assert.deepEqual(await requestMessage(url, 'admin', rotated), [500, unverifiable]);
    assert.deepEqual(await requestMessage(url, 'admin', former), [200, adminMessage]);

    issuer.comeBack();
    clock.move(30_000);
    assert.deepEqual(await requestMessage(url, 'admin', rotated), [200, adminMessage]);
  });

  test('a withdrawn key is noticed after 10 minutes, in the background', async (t) => {
    const issuer = await startIssuer(t);
    const url = await openMessages(t, issuer);
    const former = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await requestMessage(url, 'admin', former), [200, adminMessage]);
    issuer.rotate();
    clock.move(10 * 60_000);
    assert.deepEqual(
      await requestMessage(url, 'admin', former),
      [200, adminMessage],
      'the request does not wait for the fetch',
    );
    const last = await waitFor('the new set', async () => {
      const response = await requestMessage(url, 'admin', former);
      return response[0] !== 200 && response;
    });
    assert.deepEqual(last, [401, badCredentials]);
    assert.equal(issuer.keySetFetches, 2);
  });

  test('an invalid certificate makes keys unavailable', async (t) => {
    const issuer = await startIssuer(t);
    const url = await openMessages(t, issuer);
    const token = await issuer.token({ audience, client: 'admin' });
    const bad: [identity: typeof trusted, why: RegExp][] = [
      [selfSigned, /self-signed certificate/],
      [ofAnotherHost, /does not match certificate's altnames/],
      [expired, /certificate has expired/],
    ];
    for (const [identity, why] of bad) {
      issuer.present(identity);
      clock.move(1_000);
      assert.deepEqual(await requestMessage(url, 'admin', token), [500, unverifiable], String(why));
      assert.match(reported.at(-1) ?? '', why);
    }
    assert.equal(issuer.keySetFetches, 0);

    issuer.present(trusted);
    clock.move(1_000);
    assert.deepEqual(await requestMessage(url, 'admin', token), [200, adminMessage]);
  });
});
