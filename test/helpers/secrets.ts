import assert from 'node:assert/strict';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { makeId } from '../../src/core/ids.ts';
import { storeLocation } from '../../src/core/value.ts';
import { keyIdOf } from '../../src/store/seal.ts';
import { openStore } from '../../src/store/open.ts';
import type { RotationStep, SealedRow, SecretStore } from '../../src/store/port/secrets.ts';
import type { Store } from '../../src/store/port/store.ts';

/** A key of LEAT_SECRET_KEY: its text there, and its id. */
export interface TestKey {
  readonly bytes: Buffer;
  readonly text: string;
  readonly id: string;
}

export function testKey(byte: number): TestKey {
  const bytes = Buffer.alloc(32, byte);
  return { bytes, text: bytes.toString('base64'), id: keyIdOf(bytes) };
}

/** Works on the store of a location (LEAT_STORE) in this process. */
export async function withStore<T>(
  where: string,
  keys: readonly TestKey[],
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const location = storeLocation(where);
  assert.ok('value' in location);
  const store = await openStore({
    location: location.value,
    secretKeys: keys.map(({ bytes }) => bytes),
    random: systemRandom,
    clock: systemClock,
  });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Adds disabled streams to the first tenant, so that a rotation takes some steps. */
export async function addSealedStreams(store: Store, count: number): Promise<void> {
  const [tenant] = await store.tenants.list();
  assert.ok(tenant);
  const now = systemClock.now();
  for (let number = 0; number < count; number += 1) {
    const created = await store.streams.create(
      {
        tenant: tenant.id,
        id: makeId('est_', now, systemRandom),
        name: `sealed-${number}`,
        status: 'disabled',
        types: ['never.published'],
        destination: {
          type: 'webhook',
          endpoint: 'https://hooks.example.net/leat',
          authorization: { method: 'bearer', token: 'kept-secret' },
        },
        signingSecrets: [{ secret: 'whsec_AAEC', createdAt: now, expiresAt: undefined }],
        createdAt: now,
        updatedAt: now,
      },
      { streamsMax: count + 1000 },
    );
    assert.ok('created' in created);
  }
}

/** Begins a rotation to the first key and does its first step, as a command that was killed then. */
export async function beginRotation(where: string, keys: readonly TestKey[]): Promise<void> {
  await withStore(where, keys, async ({ secrets }) => {
    const start = await secrets.begin(keys[0]?.id ?? '');
    assert.ok('begun' in start);
    assert.ok(await secrets.step(start.begun, undefined));
  });
}

/** Rotates to a key, the first one by default, to the end. */
export async function rotate(secrets: SecretStore, key = secrets.keys()[0] ?? '') {
  const rotation = await secrets.begin(key);
  const total = { rows: 0, values: 0, broken: [] as RotationStep['broken'][number][] };
  if (!('begun' in rotation)) return total;
  let after: SealedRow | undefined;
  do {
    const step = await secrets.step(rotation.begun, after);
    assert.ok(step);
    total.rows += step.rows;
    total.values += step.values;
    total.broken.push(...step.broken);
    after = step.next;
  } while (after !== undefined);
  assert.equal(await secrets.finish(rotation.begun), true);
  return total;
}

/** Opens every sealed value of every tenant with these keys. Returns the number of streams. */
export async function openAll(where: string, keys: readonly TestKey[]): Promise<number> {
  return withStore(where, keys, async ({ tenants, streams, keys: signingKeys }) => {
    let count = 0;
    for (const { id } of await tenants.list()) {
      let after: string | undefined;
      do {
        const page = await streams.list(id, { after, take: 100 });
        count += page.items.length;
        after = page.next;
      } while (after !== undefined);
      assert.ok((await signingKeys.list(id, systemClock.now())).length > 0);
    }
    return count;
  });
}
