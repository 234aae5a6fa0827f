import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { createAdmin, type Admin } from '../../src/program/admin.ts';
import { bootstrap } from '../../src/auth/bootstrap.ts';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { readConfig } from '../../src/config.ts';
import { StartRefused } from '../../src/core/errors.ts';
import { openServiceStore } from '../../src/program/store.ts';

const client = { clientId: 'operator', clientSecret: 'secret-of-the-operator' };

describe('before the first start', () => {
  test('tenants create fails: the first start would take that tenant for the first one', async (t) => {
    const { admin, folder } = await openAdmin(t);
    await writeFile(join(folder, 'leat.db'), '', { mode: 0o600 });
    const noTenant = new StartRefused('There is no tenant yet: leat start creates the first one.');
    await assert.rejects(
      admin.run('tenants create', { name: 'second', domain: 'second.example' }),
      noTenant,
    );
    await assert.rejects(admin.run('tenants bootstrap', { name: 'main' }), noTenant);
    assert.equal(await admin.run('tenants list'), '');
  });
});

describe('a renewed bootstrap client', () => {
  for (const configured of [true, false]) {
    test(`tenants bootstrap ${configured ? 'warns' : 'does not warn'} of a secret that is ${configured ? '' : 'not '}set in the environment`, async (t) => {
      const { admin, start } = await openAdmin(t, configured);
      await start();
      const text = await admin.run('tenants bootstrap', { name: 'main' });
      assert.match(text, /secret {2}\S{43}(?:\n|$)/);
      assert.equal(/next start restores that secret/.test(text), configured);
    });
  }
});

/** Opens the operator's commands on a store in a new folder; `start` completes its first start. */
async function openAdmin(
  t: TestContext,
  configured = false,
): Promise<{ admin: Admin; folder: string; start(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-admin-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const read = readConfig({
    LEAT_STORE: `sqlite:${join(folder, 'leat.db')}`,
    LEAT_SECRET_KEY: randomBytes(32).toString('base64'),
    ...(configured && {
      LEAT_BOOTSTRAP_CLIENT_ID: client.clientId,
      LEAT_BOOTSTRAP_CLIENT_SECRET: client.clientSecret,
    }),
  });
  if ('problems' in read) throw new Error(read.problems.join('\n'));
  const deps = { config: read.config, clock: systemClock, random: systemRandom };
  return {
    admin: createAdmin(deps),
    folder,
    start: async () => {
      const store = await openServiceStore(deps);
      const options = { name: 'main', domain: 'localhost:8080', client };
      await bootstrap({ store, random: systemRandom, now: systemClock.now() }, options);
      await store.close();
    },
  };
}
