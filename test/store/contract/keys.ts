import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreContentRefused } from '../../../src/core/errors.ts';
import type { SigningKey } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import { addTenant, createScene, start, type Scene } from './fixture.ts';

const minute = 60_000;

export function keysContract(engine: Engine): void {
  describe(`${engine.name}: signing keys`, () => {
    test('list: newest first, also within one instant', async (t) => {
      const scene = await createScene(engine, t);
      for (const kid of ['z', 'a', 'm']) await add(scene, kid);
      assert.deepEqual(await kids(scene), ['m', 'a', 'z']);
    });

    test('add: what comes back is what went in', async (t) => {
      const scene = await createScene(engine, t);
      const privateJwk = JSON.stringify({ kty: 'RSA', d: 'geheim ✓ 🔑'.repeat(1000) });
      await add(scene, 'a', { privateJwk, signsFrom: start + 10 * minute });
      const { tenant, now } = scene;
      const expected = { tenant, kid: 'a', privateJwk, createdAt: now, expiresAt: undefined };
      assert.deepEqual(await scene.store.keys.list(tenant, now), [
        { ...expected, signsFrom: start + 10 * minute },
      ]);
    });

    test('add: gives the key before it an end, which later keys leave as it is', async (t) => {
      const scene = await createScene(engine, t);
      await add(scene, 'a');
      await add(scene, 'b', {}, start + 30 * minute);
      await add(scene, 'c', {}, start + 60 * minute);
      assert.deepEqual(await ends(scene), {
        c: undefined,
        b: start + 60 * minute,
        a: start + 30 * minute,
      });
    });

    test('add: the key that signs now lives on while the new one and those between wait', async (t) => {
      const scene = await createScene(engine, t);
      await add(scene, 'a');
      await add(scene, 'b', { signsFrom: start + 10 * minute }, start + 30 * minute);
      await add(scene, 'c', { signsFrom: start + 15 * minute }, start + 35 * minute);
      assert.equal((await ends(scene))['a'], start + 35 * minute);
    });

    test('list: a key is left out from its end on', async (t) => {
      const scene = await createScene(engine, t);
      await add(scene, 'a');
      await add(scene, 'b', {}, start + minute);
      scene.now = start + minute - 1;
      assert.deepEqual(await kids(scene), ['b', 'a']);
      scene.now = start + minute;
      assert.deepEqual(await kids(scene), ['b']);
    });

    test('add: a kid is used once per tenant', async (t) => {
      const scene = await createScene(engine, t);
      await add(scene, 'a');
      await assert.rejects(add(scene, 'a', {}, start + minute), StoreContentRefused);
      assert.deepEqual(await ends(scene), { a: undefined }, 'the refused call gave no end');
      const other = await addTenant(scene.store, 'other');
      await add({ ...scene, tenant: other.id }, 'a');
      assert.deepEqual(await kids(scene), ['a']);
    });

    test('promote: lets a waiting key sign from now on', async (t) => {
      const scene = await createScene(engine, t);
      await add(scene, 'a', { signsFrom: start + 10 * minute });
      assert.equal(await scene.store.keys.promote(scene.tenant, 'a', start + minute), true);
      const [key] = await scene.store.keys.list(scene.tenant, start);
      assert.equal(key?.signsFrom, start + minute);
    });

    test('promote: a key that is the newest again has no end any more', async (t) => {
      const scene = await createScene(engine, t);
      await add(scene, 'a');
      await add(scene, 'b', {}, start + minute);
      await scene.store.keys.promote(scene.tenant, 'a', start);
      assert.equal((await ends(scene))['a'], start + minute, 'a newer key is there');
      await scene.store.keys.revoke(scene.tenant, 'b');
      await scene.store.keys.promote(scene.tenant, 'a', start);
      assert.deepEqual(await ends(scene), { a: undefined });
    });

    test('promote: neither an unknown key nor one past its end', async (t) => {
      const scene = await createScene(engine, t);
      const other = await addTenant(scene.store, 'other');
      await add(scene, 'a');
      await add(scene, 'b', {}, start + minute);
      const { keys } = scene.store;
      assert.equal(await keys.promote(scene.tenant, 'a', start + minute), false);
      assert.equal(await keys.promote(scene.tenant, 'nobody', start), false);
      assert.equal(await keys.promote(other.id, 'b', start), false);
    });

    test('revoke: removes the key of this tenant at once', async (t) => {
      const scene = await createScene(engine, t);
      const other = await addTenant(scene.store, 'other');
      await add(scene, 'a');
      assert.equal(await scene.store.keys.revoke(other.id, 'a'), false);
      assert.equal(await scene.store.keys.revoke(scene.tenant, 'a'), true);
      assert.equal(await scene.store.keys.revoke(scene.tenant, 'a'), false);
      assert.deepEqual(await kids(scene), []);
    });

    test('watch: hears of every change of the keys, and of nothing else', async (t) => {
      const scene = await createScene(engine, t);
      await add(scene, 'a');
      await scene.store.keys.promote(scene.tenant, 'a', start);
      await scene.store.keys.promote(scene.tenant, 'b', start);
      await scene.store.keys.revoke(scene.tenant, 'a');
      await scene.store.keys.revoke(scene.tenant, 'a');
      const hint = { kind: 'keys', tenant: scene.tenant };
      assert.deepEqual(scene.hints, [hint, hint, hint]);
    });
  });
}

async function add(
  { store, tenant, now }: Scene,
  kid: string,
  given: Partial<SigningKey> = {},
  formerExpiresAt = start + 60 * minute,
): Promise<void> {
  const key = { tenant, kid, privateJwk: '{"d":"secret"}', createdAt: now, signsFrom: now };
  await store.keys.add({ ...key, ...given }, formerExpiresAt);
}

async function kids({ store, tenant, now }: Scene): Promise<string[]> {
  return (await store.keys.list(tenant, now)).map((key) => key.kid);
}

async function ends({ store, tenant, now }: Scene): Promise<Record<string, number | undefined>> {
  const keys = await store.keys.list(tenant, now);
  return Object.fromEntries(keys.map((key) => [key.kid, key.expiresAt]));
}
