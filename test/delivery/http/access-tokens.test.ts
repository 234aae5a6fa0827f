import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { limits } from '../../../src/config.ts';
import type { ClientCredentials } from '../../../src/core/types.ts';
import {
  createAccessTokens,
  type TokenLimits,
  tokenOwnerOf,
} from '../../../src/delivery/http/access-tokens.ts';
import type { TokenResponse } from '../../../src/delivery/http/token-response.ts';
import { createManualClock } from '../../helpers/clock.ts';

const credentials: ClientCredentials = {
  tokenEndpoint: 'https://login.example.com/token',
  clientId: 'leat',
  clientSecret: 'a secret',
};
const owner = tokenOwnerOf(1, credentials);

interface Fetch {
  readonly tenant: number;
  readonly credentials: ClientCredentials;
  end(response: TokenResponse): Promise<void>;
}

const tokenOf = (token: string, lifetimeMs = 3_600_000): TokenResponse => ({
  kind: 'token',
  token,
  lifetimeMs,
});
const refusal: TokenResponse = { kind: 'failed', detail: 'token endpoint: 500' };

/** The tokens of a node, with fetches that the test ends. */
function createFixture(changes: Partial<TokenLimits> = {}) {
  const clock = createManualClock();
  const fetches: Fetch[] = [];
  const tokens = createAccessTokens({
    clock,
    limits: { ...limits.tokens, perEndpoint: 4, perTenant: 16, ...changes },
    endpoints: {
      fetch: (tenant, sent) => {
        const { promise, resolve } = Promise.withResolvers<TokenResponse>();
        const end = async (response: TokenResponse): Promise<void> => {
          resolve(response);
          await clock.advance(0);
        };
        fetches.push({ tenant, credentials: sent, end });
        return promise;
      },
      close: () => undefined,
    },
  });
  return { clock, fetches, tokens };
}

describe('preparing an attempt', () => {
  test('attempts wait for one fetch together, and find its token', async () => {
    const { fetches, tokens } = createFixture();
    const waiting = Array.from({ length: 64 }, () => tokens.prepare(owner));
    assert.ok(waiting.every((prepared) => prepared !== true));
    assert.equal(tokens.isReady(owner), false);
    assert.equal(fetches.length, 1);
    await fetches[0]?.end(tokenOf('one'));
    await Promise.all(waiting);
    assert.equal(tokens.isReady(owner), true);
    assert.equal(tokens.prepare(owner), true);
    assert.deepEqual(tokens.find(owner), { kind: 'token', token: 'one' });
    assert.equal(fetches.length, 1);
  });

  test('a token is replaced in the last minute of its life, while it is still used', async () => {
    const { clock, fetches, tokens } = createFixture();
    void tokens.prepare(owner);
    await fetches[0]?.end(tokenOf('one'));
    await clock.advance(3_539_999);
    assert.equal(tokens.prepare(owner), true);
    assert.equal(fetches.length, 1);
    await clock.advance(1);
    assert.equal(tokens.prepare(owner), true);
    assert.equal(tokens.prepare(owner), true);
    assert.equal(fetches.length, 2);
    assert.deepEqual(tokens.find(owner), { kind: 'token', token: 'one' });
    await fetches[1]?.end(tokenOf('two'));
    assert.deepEqual(tokens.find(owner), { kind: 'token', token: 'two' });
  });

  test('an expired token is not used, and attempts wait for the next one', async () => {
    const { clock, fetches, tokens } = createFixture();
    void tokens.prepare(owner);
    await fetches[0]?.end(tokenOf('one', 10_000));
    await clock.advance(10_000);
    assert.equal(tokens.isReady(owner), false);
    assert.notEqual(tokens.prepare(owner), true);
    assert.equal(fetches.length, 2);
  });

  test('a failure to replace a token in time is tried again after a second, not per attempt', async () => {
    const { clock, fetches, tokens } = createFixture();
    void tokens.prepare(owner);
    await fetches[0]?.end(tokenOf('one', 40_000));
    await clock.advance(30_000);
    void tokens.prepare(owner);
    await fetches[1]?.end(refusal);
    for (let n = 0; n < 9; n += 1) assert.equal(tokens.prepare(owner), true);
    assert.equal(fetches.length, 2);
    assert.deepEqual(tokens.find(owner), { kind: 'token', token: 'one' });
    await clock.advance(1000);
    assert.equal(tokens.prepare(owner), true);
    assert.equal(fetches.length, 3);
  });

  test('attempts begin with a failure for a second, then wait for another fetch', async () => {
    const { clock, fetches, tokens } = createFixture();
    const waiting = tokens.prepare(owner);
    await fetches[0]?.end(refusal);
    await waiting;
    assert.equal(tokens.prepare(owner), true);
    assert.deepEqual(tokens.find(owner), refusal);
    await clock.advance(1000);
    assert.notEqual(tokens.prepare(owner), true);
    assert.equal(fetches.length, 2);
  });
});

test('streams share a token only if tenant, endpoint, client, secret, scope and audience are equal', async () => {
  const { fetches, tokens } = createFixture({ perTenant: 100, perEndpoint: 100 });
  void tokens.prepare(owner);
  await fetches[0]?.end(tokenOf('one'));
  assert.equal(tokens.prepare(tokenOwnerOf(1, { ...credentials })), true);
  const others = [
    tokenOwnerOf(2, credentials),
    tokenOwnerOf(1, { ...credentials, tokenEndpoint: 'https://login.example.com/token?' }),
    tokenOwnerOf(1, { ...credentials, clientId: 'leat2' }),
    tokenOwnerOf(1, { ...credentials, clientSecret: 'a secret ' }),
    tokenOwnerOf(1, { ...credentials, scope: 'a' }),
    tokenOwnerOf(1, { ...credentials, audience: 'a' }),
    tokenOwnerOf(1, { ...credentials, scope: 'a', audience: 'a' }),
  ];
  for (const other of others) assert.notEqual(tokens.prepare(other), true);
  assert.equal(fetches.length, 1 + others.length);
  assert.equal(new Set(others.map(({ key }) => key)).size, others.length);
});

describe('a token that a receiver refuses', () => {
  test('is replaced by one fetch for all attempts that it was refused for', async () => {
    const { fetches, tokens } = createFixture();
    void tokens.prepare(owner);
    await fetches[0]?.end(tokenOf('one'));
    const replaced = Array.from({ length: 64 }, () => tokens.replace(owner, 'one'));
    assert.equal(fetches.length, 2);
    assert.equal(tokens.isReady(owner), true, 'other attempts use it meanwhile');
    await fetches[1]?.end(tokenOf('two'));
    for (const each of replaced) assert.deepEqual(await each, { kind: 'token', token: 'two' });
    assert.deepEqual(tokens.replace(owner, 'one'), { kind: 'token', token: 'two' }, 'a late one');
    assert.equal(fetches.length, 2);
  });

  test('is replaced at most once a minute', async () => {
    const { clock, fetches, tokens } = createFixture();
    void tokens.prepare(owner);
    await fetches[0]?.end(tokenOf('one'));
    void tokens.replace(owner, 'one');
    await fetches[1]?.end(tokenOf('two'));
    await clock.advance(59_999);
    assert.equal(tokens.replace(owner, 'two'), undefined);
    assert.equal(fetches.length, 2);
    await clock.advance(1);
    assert.notEqual(tokens.replace(owner, 'two'), undefined);
    assert.equal(fetches.length, 3);
  });

  test('is replaced within the minute when it has expired since', async () => {
    const { clock, fetches, tokens } = createFixture();
    void tokens.prepare(owner);
    await fetches[0]?.end(tokenOf('one', 20_000));
    void tokens.replace(owner, 'one');
    await fetches[1]?.end(tokenOf('two', 20_000));
    await clock.advance(19_999);
    assert.equal(tokens.replace(owner, 'two'), undefined);
    await clock.advance(1);
    const replaced = tokens.replace(owner, 'two');
    await fetches[2]?.end(tokenOf('three', 20_000));
    assert.deepEqual(await replaced, { kind: 'token', token: 'three' });
    assert.equal(fetches.length, 3);
    assert.equal(tokens.replace(owner, 'three'), undefined);
  });

  test('is not used any more when no other can be fetched', async () => {
    const { clock, fetches, tokens } = createFixture();
    void tokens.prepare(owner);
    await fetches[0]?.end(tokenOf('one'));
    const replaced = tokens.replace(owner, 'one');
    await fetches[1]?.end(refusal);
    assert.deepEqual(await replaced, refusal);
    await clock.advance(1000);
    assert.notEqual(tokens.prepare(owner), true);
    await fetches[2]?.end(tokenOf('two'));
    assert.deepEqual(tokens.find(owner), { kind: 'token', token: 'two' });
  });
});

describe('the tokens that texts may hold', () => {
  test('are the present one and the two before it', async () => {
    const { clock, fetches, tokens } = createFixture();
    for (const [index, token] of ['one', 'two', 'three', 'four'].entries()) {
      void tokens.prepare(owner);
      await fetches[index]?.end(tokenOf(token, 10_000));
      await clock.advance(10_000);
    }
    assert.deepEqual(tokens.tokensOf(owner), ['four', 'three', 'two']);
    assert.equal(tokens.tokensOf(owner), tokens.tokensOf(owner));
    assert.deepEqual(tokens.tokensOf(tokenOwnerOf(2, credentials)), []);
  });
});

describe('many clients', () => {
  const clientOf = (n: number, tokenEndpoint: string, tenant = 1) =>
    tokenOwnerOf(tenant, { ...credentials, clientId: `client-${n}`, tokenEndpoint });

  test('an endpoint that hangs delays neither other endpoints of the tenant nor other tenants', async () => {
    const { fetches, tokens } = createFixture();
    for (let n = 0; n < 100; n += 1) void tokens.prepare(clientOf(n, 'https://hangs.test/'));
    assert.equal(fetches.length, 4);
    void tokens.prepare(clientOf(1, 'https://works.test/'));
    void tokens.prepare(clientOf(1, 'https://hangs.test/', 2));
    assert.deepEqual(
      fetches.slice(4).map((fetch) => [fetch.tenant, fetch.credentials.tokenEndpoint]),
      [
        [1, 'https://works.test/'],
        [2, 'https://hangs.test/'],
      ],
    );
  });

  test('many endpoints that hang leave fetches for other tenants, in turns', async () => {
    const { fetches, tokens } = createFixture({ total: 20 });
    for (let n = 0; n < 100; n += 1) void tokens.prepare(clientOf(n, `https://hangs-${n}.test/`));
    assert.equal(fetches.length, 16);
    for (let n = 0; n < 9; n += 1) void tokens.prepare(clientOf(n, 'https://a.test/', 2));
    void tokens.prepare(clientOf(1, 'https://b.test/', 3));
    assert.equal(fetches.length, 20);
    for (const fetch of fetches.slice(0, 2)) await fetch.end(refusal);
    assert.deepEqual(new Set(fetches.slice(20).map(({ tenant }) => tenant)), new Set([1, 3]));
  });

  test('tokens are bounded in memory: the least recently used ones are forgotten', async () => {
    const { fetches, tokens } = createFixture({ charactersMax: 30_000, perEndpoint: 100 });
    const owners = Array.from({ length: 10 }, (_, n) => clientOf(n, 'https://a.test/'));
    for (const [index, each] of owners.entries()) {
      void tokens.prepare(each);
      await fetches[index]?.end(tokenOf(`${index}`.repeat(8000)));
    }
    assert.deepEqual(
      owners.map((each) => tokens.isReady(each)),
      owners.map((_, index) => index >= 7),
    );
  });
});
