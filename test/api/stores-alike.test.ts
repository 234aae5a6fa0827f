import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Store } from '../../src/store/port/store.ts';
import { compareServers, type Comparison, type Side } from '../helpers/compared-servers.ts';
import { postgres, sqliteMemory } from '../store/engines.ts';

const sqlite: Side = { engine: sqliteMemory };

describe('the same random requests to SQLite and PostgreSQL', () => {
  test('stores alike: 500 requests have the same status, headers and body', async () => {
    assertAlike(await compareServers(70_001, 500, [sqlite, { engine: postgres }]), 70_001);
  });

  test('stores alike: 52,000 requests of 20 seeds, 4 of them new', { tags: ['long'] }, async () => {
    const succeeded = new Set<string>();
    const seeds = Array.from({ length: 20 }, (_, index) =>
      index < 16 ? 70_001 + 1009 * index : randomInt(1_000_000, 1_000_000_000),
    );
    for (const seed of seeds) {
      const comparison = await compareServers(seed, 2600, [sqlite, { engine: postgres }]);
      assertAlike(comparison, seed);
      for (const each of comparison.succeeded) succeeded.add(each);
    }
    assert.ok(succeeded.size >= 80, `${succeeded.size} operations succeeded`);
  });

  const planted: [what: string, around: (store: Store) => Store][] = [
    [
      'a list of roles in another order',
      ({ roles, ...store }) => ({
        ...store,
        roles: {
          ...roles,
          list: async (...args) => {
            const page = await roles.list(...args);
            return { ...page, items: page.items.toReversed() };
          },
        },
      }),
    ],
  ];
  for (const [what, around] of planted) {
    test(`stores alike: ${what} is found within 500 requests`, async () => {
      const sides = [sqlite, { ...sqlite, around }] as const;
      const { difference } = await compareServers(70_001, 500, sides);
      assert.notEqual(difference, undefined);
      const { difference: none } = await compareServers(70_001, 500, [sqlite, sqlite]);
      assert.equal(none, undefined);
    });
  }
});

function assertAlike({ difference, statuses }: Comparison, seed: number): void {
  assert.equal(difference, undefined, `seed ${seed}`);
  for (const status of [200, 201, 202, 204, 400, 401, 404, 405, 409]) {
    assert.ok((statuses.get(status) ?? 0) > 0, `no response was ${status}`);
  }
}
