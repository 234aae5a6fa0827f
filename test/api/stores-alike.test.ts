import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Store } from '../../src/store/port/store.ts';
import { compareServers, type Comparison, type Side } from '../helpers/compared-servers.ts';
import { postgres, sqliteMemory } from '../store/engines.ts';

const fresh = randomInt(100_000, 2 ** 31 - 10_000);
const sqlite: Side = { engine: sqliteMemory };

describe('the same random requests to SQLite and PostgreSQL', () => {
  test('stores alike: 500 requests have the same status, headers and body', async () => {
    assertAlike(await compareServers(70_001, 500, [sqlite, { engine: postgres }]), 70_001);
  });

  // Each with seeds of its own, so that they run side by side; the last ones are new in every run.
  for (const [part, first] of [70_001, 75_046, 80_091, fresh].entries()) {
    test(
      `stores alike: 13,000 requests of 5 seeds, part ${part + 1} of 4`,
      { tags: ['long'] },
      async (t) => {
        const succeeded = new Set<string>();
        for (let seed = first; seed < first + 5 * 1009; seed += 1009) {
          const comparison = await compareServers(seed, 2600, [sqlite, { engine: postgres }]);
          t.diagnostic(`seed ${seed}: ${comparison.succeeded.size} operations succeeded`);
          assertAlike(comparison, seed);
          for (const each of comparison.succeeded) succeeded.add(each);
        }
        assert.ok(succeeded.size >= 80, `${succeeded.size} operations succeeded`);
      },
    );
  }

  const mutants: [what: string, around: (store: Store) => Store][] = [
    [
      'an offset that is one too high',
      ({ log, ...store }) => ({
        ...store,
        log: {
          ...log,
          append: async (...args) =>
            (await log.append(...args)).map((one) => ({ ...one, offset: one.offset + 1 })),
        },
      }),
    ],
  ];
  for (const [what, around] of mutants) {
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
