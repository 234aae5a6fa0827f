import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import type { LogEvent } from '../../../src/core/types.ts';
import type { LogPage, LogQuery } from '../../../src/store/port/log.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { openConnection } from '../../../src/store/engine/sqlite/connection.ts';
import { createDatabase } from '../../../src/store/engine/sqlite/database.ts';
import { openSqliteStore } from '../../../src/store/engine/sqlite/store.ts';
import { TypeIndex } from '../../../src/store/engine/sqlite/type-index.ts';
import { createRandom } from '../../helpers/console-events.ts';
import { addTenant, newEvent } from '../contract/fixture.ts';
import { newFolder, storeDeps } from './file.ts';

/** One of many types: low numbers are frequent. */
const typeOf = (random: number): string => `order.n${Math.floor(60 * random ** 3)}`;

describe('the types in memory', () => {
  test(
    'give the same events as the log, whatever is appended, pruned and removed',
    { tags: ['long'] },
    async (t) => {
      const { store } = await openOn(t);
      const below = createRandom(7);
      const random = (): number => below(1_000_000) / 1_000_000;
      const tenants: number[] = [];
      let pruned = 0;
      let added = 0;
      const addOne = async (): Promise<void> => {
        tenants.push((await addTenant(store, `t${(added += 1)}`)).id);
      };
      const eventsOf = (count: number) =>
        Array.from({ length: count }, () => {
          const type = typeOf(random());
          // Some were published before.
          return random() < 0.1
            ? newEvent({ id: `evt_${below(500)}`, chosen: true, type })
            : newEvent({ type });
        });
      await addOne();
      await addOne();
      for (const tenant of tenants) await store.log.append(tenant, eventsOf(12_000));
      for (let turn = 0; turn < 160; turn += 1) {
        const tenant = tenants[below(tenants.length)] ?? 0;
        if (turn % 10 === 0) {
          // Not awaited: it is not on the disk when the page is read.
          const appended = store.log.append(tenant, eventsOf(below(turn % 50 === 0 ? 3000 : 300)));
          await comparePage();
          await appended;
        }
        if (turn % 45 === 0)
          pruned += await store.log.prune(tenant, { olderThanMs: -1, take: 1000 });
        if (turn === 110) {
          await store.tenants.leave(tenants.shift() ?? 0);
          await addOne();
          await store.log.append(tenants.at(-1) ?? 0, eventsOf(9000));
        }
        await comparePage();

        async function comparePage(): Promise<void> {
          const head = await store.log.head(tenant);
          const types = Array.from({ length: 1 + below(4) }, () => typeOf(random()));
          const query: LogQuery = {
            after: below(random() < 0.5 ? 100 : head + 5),
            upTo: random() < 0.3 ? below(head + 5) : undefined,
            types: random() < 0.1 ? ['order.none'] : types,
            take: 1 + below(random() < 0.2 ? 5000 : 50),
            bytesMax: random() < 0.2 ? 500 : 1_000_000,
          };
          const page = await store.log.page(tenant, query);
          const log = await logOf(store, tenant, { after: query.after, upTo: page.scannedTo });
          requireSame(query, page, { log, head });
        }
      }
      assert.ok(pruned > 0);
    },
  );

  test('are not looked through for more events than a page can hold', async (t) => {
    const { store, file } = await openOn(t);
    const { id: tenant } = await addTenant(store, 'main');
    await store.log.append(
      tenant,
      Array.from({ length: 9000 }, () => newEvent({ type: 'order.paid' })),
    );
    await store.close();
    const connection = openConnection({ path: file, file });
    t.after(() => connection.close());
    const index = new TypeIndex(createDatabase(connection));
    for (let n = 0; n < 2; n += 1) index.noteSearched(tenant, 1);
    const query = { types: ['order.paid'], from: 11, upTo: 9000, take: 1_000_000 };
    const found = index.find(tenant, query);
    assert.equal(found?.scannedTo, 1010);
    assert.deepEqual(
      found.offsets,
      Array.from({ length: 1000 }, (_, at) => 11 + at),
    );
  });
});

function requireSame(
  { after, upTo = Infinity, types = [], take, bytesMax }: LogQuery,
  { events, scannedTo }: LogPage,
  { log, head }: { readonly log: readonly LogEvent[]; readonly head: number },
): void {
  const matching = log.filter(({ type }) => types.includes(type));
  assert.deepEqual(events, matching);
  assert.ok(events.length <= take);
  const bytes = events.reduce((sum, { body }) => sum + body.length, 0);
  assert.ok(bytes <= bytesMax || events.length === 1);
  const end = Math.min(upTo, head);
  assert.ok(scannedTo <= Math.max(after, end));
  assert.ok(scannedTo > after || after >= end);
}

/** Reads all events of a part of the log. */
async function logOf(
  store: Store,
  tenant: number,
  part: { readonly after: number; readonly upTo: number },
): Promise<LogEvent[]> {
  const query = { ...part, take: 1_000_000, bytesMax: Infinity };
  const { events } = await store.log.page(tenant, query);
  const after = events.at(-1)?.offset;
  if (after === undefined || after >= part.upTo) return [...events];
  return [...events, ...(await logOf(store, tenant, { ...part, after }))];
}

async function openOn(t: TestContext): Promise<{ store: Store; file: string }> {
  const file = join(await newFolder(t), 'leat.db');
  const store = await openSqliteStore({ path: file, file }, storeDeps);
  t.after(() => store.close());
  return { store, file };
}
