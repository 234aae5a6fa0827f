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

/** The message API with tokens and keys of an authorization server that is not ours. */

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

/** `leat messages` for the tokens of an authorization server; answers its URL. */
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
type Answered = readonly [status: number, content: unknown];

async function ask(url: string, message: Message, token?: string): Promise<Answered> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(`${url}/api/messages/${message}`, { headers });
  assert.equal(answer.headers.get('access-control-allow-origin'), origin);
  return [answer.status, await answer.json()];
}

describe('a token of an authorization server elsewhere', () => {
  test('opens the protected message, and with the permission the admin message', async (t) => {
    const issuer = await startIssuer(t);
    const url = await startMessages(t, issuer);
    const reader = await issuer.token({ audience, client: 'reader' });
    const admin = await issuer.token({ audience, client: 'admin' });

    assert.deepEqual(await ask(url, 'protected', reader), [200, protectedMessage]);
    assert.deepEqual(await ask(url, 'admin', reader), [403, denied]);
    assert.deepEqual(await ask(url, 'protected', admin), [200, protectedMessage]);
    assert.deepEqual(await ask(url, 'admin', admin), [200, adminMessage]);
    assert.deepEqual(await ask(url, 'public', admin), [200, publicMessage]);
  });

  test('is refused when it was made for another API', async (t) => {
    const issuer = await startIssuer(t);
    const url = await startMessages(t, issuer);
    for (const other of [`${audience}/`, 'https://elsewhere.example.com']) {
      const token = await issuer.token({ audience: other, client: 'admin' });
      assert.deepEqual(await ask(url, 'admin', token), [401, badCredentials], other);
    }
  });

  test('is refused when another one issued it, even with the same key', async (t) => {
    const issuer = await startIssuer(t, { privateKey: signingKey });
    const url = await startMessages(t, issuer);
    const withoutSlash = issuer.issuer.slice(0, -1);
    for (const options of [{}, { issuer: withoutSlash }, { issuer: issuer.issuer.toUpperCase() }]) {
      const other = await startIssuer(t, { privateKey: signingKey, ...options });
      const token = await other.token({ audience, client: 'admin' });
      assert.deepEqual(await ask(url, 'protected', token), [401, badCredentials], other.issuer);
      assert.equal(other.keySetFetches, 0, 'nobody is asked for keys because a token says so');
    }
    const own = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await ask(url, 'protected', own), [200, protectedMessage]);
  });

  test('is refused when a forger issued it in its name, under the same kid', async (t) => {
    const issuer = await startIssuer(t);
    const forger = await startIssuer(t, { issuer: issuer.issuer });
    const url = await startMessages(t, issuer);
    const forged = await forger.token({ audience, client: 'admin' });
    const own = await issuer.token({ audience, client: 'admin' });

    assert.deepEqual(await ask(url, 'admin', forged), [401, badCredentials]);
    assert.deepEqual(await ask(url, 'admin', own), [200, adminMessage]);
    assert.deepEqual(await ask(url, 'admin', forged), [401, badCredentials]);
  });
});

describe('the key set of an authorization server elsewhere', () => {
  test('is not fetched before a token needs it, and once for a burst of first ones', async (t) => {
    const issuer = await startIssuer(t);
    const url = await startMessages(t, issuer);
    const token = await issuer.token({ audience, client: 'admin' });
    await ask(url, 'public', token);
    await ask(url, 'admin');
    await ask(url, 'admin', 'nonsense');
    assert.equal(issuer.keySetFetches, 0);

    const burst = Array.from({ length: 100 }, () => ask(url, 'admin', token));
    for (const answer of await Promise.all(burst)) {
      assert.deepEqual(answer, [200, adminMessage]);
    }
    assert.equal(issuer.keySetFetches, 1);
  });

  test('cannot be had: 500 for a token it could prove good, 401 for any other', async (t) => {
    const issuer = await startIssuer(t, { privateKey: signingKey });
    const token = await issuer.token({ audience, client: 'admin' });
    const elsewhere = await issuer.token({ audience: `${audience}/`, client: 'admin' });
    issuer.goDown();
    const url = await startMessages(t, issuer);

    assert.deepEqual(await ask(url, 'protected', token), [500, unverifiable]);
    assert.deepEqual(await ask(url, 'admin', token), [500, unverifiable]);
    const hopeless = { ...(await hopelessTokens(token)), elsewhere };
    for (const [name, bad] of Object.entries(hopeless)) {
      assert.deepEqual(await ask(url, 'admin', bad), [401, badCredentials], name);
    }
    assert.deepEqual(await ask(url, 'public', token), [200, publicMessage]);
    assert.deepEqual(await ask(url, 'public'), [200, publicMessage]);
    assert.deepEqual(await ask(url, 'admin'), [401, { message: 'Requires authentication' }]);

    issuer.comeBack();
    const answer = await waitFor('the keys', async () => {
      const now = await ask(url, 'admin', token);
      if (now[0] === 500) assert.deepEqual(now[1], unverifiable);
      return now[0] !== 500 && now;
    });
    assert.deepEqual(answer, [200, adminMessage]);
  });

  test('once fetched, proves tokens while the server is down', async (t) => {
    const issuer = await startIssuer(t);
    const forger = await startIssuer(t, { issuer: issuer.issuer });
    const url = await startMessages(t, issuer);
    const known = await issuer.token({ audience, client: 'reader' });
    const unseen = await issuer.token({ audience, client: 'admin' });
    const forged = await forger.token({ audience, client: 'admin' });
    assert.deepEqual(await ask(url, 'protected', known), [200, protectedMessage]);

    issuer.goDown();
    assert.deepEqual(await ask(url, 'protected', known), [200, protectedMessage]);
    assert.deepEqual(await ask(url, 'admin', unseen), [200, adminMessage]);
    assert.deepEqual(await ask(url, 'admin', forged), [401, badCredentials]);
    assert.equal(issuer.keySetFetches, 1);
  });

  test('counts for nothing where the certificate is not trusted', async (t) => {
    const issuer = await startIssuer(t);
    const url = await startMessages(t, issuer, {});
    const token = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await ask(url, 'admin', token), [500, unverifiable]);
    assert.deepEqual(await ask(url, 'public', token), [200, publicMessage]);
    assert.equal(issuer.keySetFetches, 0, 'the handshake did not come to its end');
  });
});

/** What no key set in the world could make good, each with all else as in a good token. */
async function hopelessTokens(good: string): Promise<Readonly<Record<string, string>>> {
  const claims: JWTPayload = decodeJwt(good);
  const endless = Object.fromEntries(Object.entries(claims).filter(([name]) => name !== 'exp'));
  const signed = (changed: JWTPayload, alg = 'RS256'): Promise<string> =>
    new SignJWT(changed).setProtectedHeader({ alg, kid: 'key-1' }).sign(signingKey);
  return {
    nonsense: 'nonsense',
    unsigned: new UnsecuredJWT(claims).encode(),
    'another algorithm': await signed(claims, 'PS256'),
    'a secret for a key': await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', kid: 'key-1' })
      .sign(Buffer.alloc(32, 1)),
    expired: await signed({ ...claims, exp: 1_000_000_000 }),
    'without an end': await signed(endless),
    'not yet good': await signed({ ...claims, nbf: 9_000_000_000 }),
    'another issuer': await signed({ ...claims, iss: 'https://elsewhere.example.com/' }),
  };
}

describe('time passes for the key set of an authorization server elsewhere', () => {
  let clock: ManualClock;
  let reported: string[];
  beforeEach(() => {
    clock = createManualClock(Date.now());
    reported = [];
  });

  /** The message API in this process, on a clock that is moved by hand. */
  async function openMessages(t: TestContext, issuer: AuthorizationServer): Promise<string> {
    const keys = createRemoteKeys(
      { fetch, clock, report: (error) => reported.push(String(error)) },
      keySetAt(`${issuer.issuer}.well-known/jwks.json`),
    );
    const server = createMessageServer({
      origin,
      trust: { issuer: issuer.issuer, audience, keys },
      connections,
      log: { warn: (facts) => assert.fail(JSON.stringify(facts)) },
      clock,
      report: (error) => assert.fail(String(error)),
    });
    t.after(server.close);
    return `http://127.0.0.1:${await server.listen({ host: '127.0.0.1', port: 0 })}`;
  }

  test('a token of a new key is good once the set is fetched anew', async (t) => {
    const issuer = await startIssuer(t);
    const url = await openMessages(t, issuer);
    const former = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await ask(url, 'admin', former), [200, adminMessage]);

    issuer.rotate();
    const latter = await issuer.token({ audience, client: 'admin' });
    clock.move(29_999);
    assert.deepEqual(await ask(url, 'admin', latter), [401, badCredentials]);
    assert.equal(issuer.keySetFetches, 1, 'strangers can invent kids');
    assert.deepEqual(await ask(url, 'admin', former), [200, adminMessage]);

    clock.move(1);
    assert.deepEqual(await ask(url, 'admin', latter), [200, adminMessage]);
    assert.equal(issuer.keySetFetches, 2);
    assert.deepEqual(await ask(url, 'admin', former), [401, badCredentials], 'its key is gone');
  });

  test('a token of a new key is unverifiable while the server is down', async (t) => {
    const issuer = await startIssuer(t);
    const url = await openMessages(t, issuer);
    const former = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await ask(url, 'admin', former), [200, adminMessage]);

    issuer.rotate();
    const latter = await issuer.token({ audience, client: 'admin' });
    issuer.goDown();
    clock.move(30_000);
    assert.deepEqual(await ask(url, 'admin', latter), [500, unverifiable]);
    assert.deepEqual(await ask(url, 'admin', former), [200, adminMessage]);

    issuer.comeBack();
    clock.move(30_000);
    assert.deepEqual(await ask(url, 'admin', latter), [200, adminMessage]);
  });

  test('a key that was withdrawn is noticed in the background after 10 minutes', async (t) => {
    const issuer = await startIssuer(t);
    const url = await openMessages(t, issuer);
    const former = await issuer.token({ audience, client: 'admin' });
    assert.deepEqual(await ask(url, 'admin', former), [200, adminMessage]);
    issuer.rotate();
    clock.move(10 * 60_000);
    assert.deepEqual(await ask(url, 'admin', former), [200, adminMessage], 'nobody waits');
    const last = await waitFor('the new set', async () => {
      const answer = await ask(url, 'admin', former);
      return answer[0] !== 200 && answer;
    });
    assert.deepEqual(last, [401, badCredentials]);
    assert.equal(issuer.keySetFetches, 2);
  });

  test('a certificate that does not hold is no certificate', async (t) => {
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
      assert.deepEqual(await ask(url, 'admin', token), [500, unverifiable], String(why));
      assert.match(reported.at(-1) ?? '', why);
    }
    assert.equal(issuer.keySetFetches, 0);

    issuer.present(trusted);
    clock.move(1_000);
    assert.deepEqual(await ask(url, 'admin', token), [200, adminMessage]);
  });
});
