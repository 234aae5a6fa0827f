import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreContentRefused } from '../../../src/core/errors.ts';
import type { SigningKey } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, start, type Fixture } from './fixture.ts';

const minute = 60_000;

export function keysContract(engine: Engine): void {
  keysOf(engine, 'keys');
  keysOf(engine, 'webhookKeys');
}

/** The part of the store with the keys of one use. */
type Part = 'keys' | 'webhookKeys';

function keysOf(engine: Engine, part: Part): void {
  const { add, kids, ends } = withKeysOf(part);

  describe(`${engine.name}: ${part === 'keys' ? 'signing keys' : 'keys of webhooks'}`, () => {
    test('list: newest first, even within one instant', async (t) => {
      const fixture = await createFixture(engine, t);
      for (const kid of ['z', 'a', 'm']) await add(fixture, kid);
      assert.deepEqual(await kids(fixture), ['m', 'a', 'z']);
    });

    test('add: the key is read as it was added', async (t) => {
      const fixture = await createFixture(engine, t);
      const privateJwk = JSON.stringify({ kty: 'RSA', d: 'geheim ✓ 🔑'.repeat(1000) });
      await add(fixture, 'a', { privateJwk, signsFrom: start + 10 * minute });
      const { tenant, now } = fixture;
      const expected = { tenant, kid: 'a', privateJwk, createdAt: now, expiresAt: undefined };
      assert.deepEqual(await fixture.store[part].list(tenant, now), [
        { ...expected, signsFrom: start + 10 * minute },
      ]);
    });

    test('add: gives the key before it an end, which later keys leave as it is', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a');
      await add(fixture, 'b', {}, start + 30 * minute);
      await add(fixture, 'c', {}, start + 60 * minute);
      assert.deepEqual(await ends(fixture), {
        c: undefined,
        b: start + 60 * minute,
        a: start + 30 * minute,
      });
    });

    test('add: the key that signs now stays while the new one and those between wait', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a');
      await add(fixture, 'b', { signsFrom: start + 10 * minute }, start + 30 * minute);
      await add(fixture, 'c', { signsFrom: start + 15 * minute }, start + 35 * minute);
      assert.equal((await ends(fixture))['a'], start + 35 * minute);
    });

    test('list: a key is left out from its end on', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a');
      await add(fixture, 'b', {}, start + minute);
      fixture.now = start + minute - 1;
      assert.deepEqual(await kids(fixture), ['b', 'a']);
      fixture.now = start + minute;
      assert.deepEqual(await kids(fixture), ['b']);
    });

    test('add: a kid is used once per tenant', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a');
      await assert.rejects(add(fixture, 'a', {}, start + minute), StoreContentRefused);
      assert.deepEqual(await ends(fixture), { a: undefined }, 'the refused call gave no end');
      const other = await addTenant(fixture.store, 'other');
      await add({ ...fixture, tenant: other.id }, 'a');
      assert.deepEqual(await kids(fixture), ['a']);
    });

    test('addFirst: of several at the same time one is added', async (t) => {
      const fixture = await createFixture(engine, t);
      const other = await addTenant(fixture.store, 'other');
      await add({ ...fixture, tenant: other.id }, 'foreign');
      const keys = fixture.store[part];
      const added = await Promise.all(
        ['a', 'b', 'c'].map((kid) => keys.addFirst(keyOf(fixture, kid))),
      );
      assert.deepEqual(added.toSorted(), ['added', 'present', 'present']);
      const [first] = await keys.list(fixture.tenant, start);
      assert.deepEqual([(await kids(fixture)).length, first?.expiresAt], [1, undefined]);
      const hint = { kind: 'keys', tenant: fixture.tenant };
      assert.deepEqual(
        fixture.hints.filter((one) => 'tenant' in one && one.tenant === fixture.tenant),
        [hint],
      );
    });

    test('addFirst: an expired key does not count', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a');
      await add(fixture, 'b', {}, start + minute);
      await fixture.store[part].revoke(fixture.tenant, 'b');
      fixture.now = start + minute;
      assert.equal(await fixture.store[part].addFirst(keyOf(fixture, 'c')), 'added');
      assert.deepEqual(await kids(fixture), ['c']);
    });

    test('promote: lets a waiting key sign from now on', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a', { signsFrom: start + 10 * minute });
      assert.equal(await fixture.store[part].promote(fixture.tenant, 'a', start + minute), true);
      const [key] = await fixture.store[part].list(fixture.tenant, start);
      assert.equal(key?.signsFrom, start + minute);
    });

    test('promote: a key that is the newest again no longer has an end', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a');
      await add(fixture, 'b', {}, start + minute);
      await fixture.store[part].promote(fixture.tenant, 'a', start);
      assert.equal((await ends(fixture))['a'], start + minute, 'a newer key is there');
      await fixture.store[part].revoke(fixture.tenant, 'b');
      await fixture.store[part].promote(fixture.tenant, 'a', start);
      assert.deepEqual(await ends(fixture), { a: undefined });
    });

    test('promote: refuses an unknown and an expired key', async (t) => {
      const fixture = await createFixture(engine, t);
      const other = await addTenant(fixture.store, 'other');
      await add(fixture, 'a');
      await add(fixture, 'b', {}, start + minute);
      const keys = fixture.store[part];
      assert.equal(await keys.promote(fixture.tenant, 'a', start + minute), false);
      assert.equal(await keys.promote(fixture.tenant, 'nobody', start), false);
      assert.equal(await keys.promote(other.id, 'b', start), false);
    });

    test('revoke: removes the key of this tenant at once', async (t) => {
      const fixture = await createFixture(engine, t);
      const other = await addTenant(fixture.store, 'other');
      await add(fixture, 'a');
      assert.equal(await fixture.store[part].revoke(other.id, 'a'), false);
      assert.equal(await fixture.store[part].revoke(fixture.tenant, 'a'), true);
      assert.equal(await fixture.store[part].revoke(fixture.tenant, 'a'), false);
      assert.deepEqual(await kids(fixture), []);
    });

    test('the keys of access tokens and those of webhooks are apart', async (t) => {
      const fixture = await createFixture(engine, t);
      const other = part === 'keys' ? 'webhookKeys' : 'keys';
      await add(fixture, 'a');
      assert.deepEqual(await fixture.store[other].list(fixture.tenant, start), []);
      assert.equal(await fixture.store[other].revoke(fixture.tenant, 'a'), false);
      assert.equal(await fixture.store[other].addFirst(keyOf(fixture, 'a')), 'added');
    });

    test('watch: receives every change of the keys, and nothing else', async (t) => {
      const fixture = await createFixture(engine, t);
      await add(fixture, 'a');
      await fixture.store[part].promote(fixture.tenant, 'a', start);
      await fixture.store[part].promote(fixture.tenant, 'b', start);
      await fixture.store[part].revoke(fixture.tenant, 'a');
      await fixture.store[part].revoke(fixture.tenant, 'a');
      const hint = { kind: 'keys', tenant: fixture.tenant };
      assert.deepEqual(fixture.hints, [hint, hint, hint]);
    });
  });
}

function withKeysOf(part: Part) {
  return {
    async add(
      { store, tenant, now }: Fixture,
      kid: string,
      given: Partial<SigningKey> = {},
      formerExpiresAt = start + 60 * minute,
    ): Promise<void> {
      await store[part].add({ ...keyOf({ tenant, now }, kid), ...given }, formerExpiresAt);
    },
    async kids({ store, tenant, now }: Fixture): Promise<string[]> {
      return (await store[part].list(tenant, now)).map((key) => key.kid);
    },
    async ends({ store, tenant, now }: Fixture): Promise<Record<string, number | undefined>> {
      const keys = await store[part].list(tenant, now);
      return Object.fromEntries(keys.map((key) => [key.kid, key.expiresAt]));
    },
  };
}

function keyOf({ tenant, now }: Pick<Fixture, 'tenant' | 'now'>, kid: string) {
  return { tenant, kid, privateJwk: '{"d":"secret"}', createdAt: now, signsFrom: now };
}
