import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import type { Command } from '../../../src/store/commands/command.ts';
import { claimDue } from '../../../src/store/commands/due.ts';
import { lockRuns, raiseCursors } from '../../../src/store/commands/runs.ts';
import { run } from '../../../src/store/engine/sqlite/commands.ts';
import { createDatabase } from '../../../src/store/engine/sqlite/database.ts';
import { createWalSync } from '../../../src/store/engine/sqlite/wal-sync.ts';
import { systemClock } from '../../../src/clock.ts';
import {
  addTenant,
  dueRules,
  fixtureOf,
  nextClaim,
  raiseOf,
  retry,
  waitRule,
} from '../contract/fixture.ts';
import { newFolder, openWith, storeDeps } from './file.ts';

/** On PostgreSQL each statement is a round trip, while the rows of the streams are locked. */
describe('statements of commands on many streams', () => {
  test('claimDue: one stream that takes many rows makes the others read no more', async (t) => {
    const { db, fixture, own } = await opened(t);
    const owned = await own(['user.created', 'user.created', 'user.created']);
    const events = await fixture.publish(...Array<string>(40).fill('user.created'));
    for (const one of owned) {
      const outcomes = events.map((event) => retry(event));
      await fixture.settle(one, { outcomes, cursor: events.length });
    }
    const takes = [32, 1, 3];
    const requests = owned.map(({ stream, epoch }, index) => {
      const { tenant, id } = stream;
      return { tenant, stream: id, epoch, take: takes[index] ?? 0, ...dueRules };
    });
    const seen: unknown[] = [];
    run(db, watched(claimDue(requests), seen));
    const [rows] = seen[1] as [ReadonlyMap<string, readonly unknown[]>];
    assert.deepEqual(
      Array.from(rows.values(), (some) => some.length).toSorted((one, other) => one - other),
      [2, 5, 33],
    );
  });

  test('raiseCursors: many streams that were changed take no more statements than one', async (t) => {
    const { db, fixture, own } = await opened(t);
    const owned = await own(['user.created', 'user.deleted', 'user.updated']);
    await fixture.publish('user.created', 'user.deleted', 'user.updated');
    const types = ['user.blocked'];
    const subscriptions = [
      { after: -1, types: ['user.created'] },
      { after: 2, types },
    ];
    for (const { stream } of owned) {
      await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
        after: { ...before, subscriptions },
        resume: undefined,
      }));
    }
    const raises = owned.map((one) => ({ ...raiseOf(one), cursor: 3 }));
    const counts = [raises.slice(0, 1), raises].map((some) => {
      const seen: unknown[] = [];
      const runs = run(db, lockRuns(some));
      assert.deepEqual(
        run(db, watched(raiseCursors(runs, some), seen)),
        some.map(() => 2),
      );
      return seen.length;
    });
    assert.deepEqual(counts, [2, 2]);
  });
});

/** Runs a command, and receives the results of its statements. */
function* watched<T>(command: Command<T>, seen: unknown[]): Command<T> {
  let step = command.next();
  while (step.done !== true) {
    const result = yield step.value;
    seen.push(result);
    step = command.next(result);
  }
  return step.value;
}

async function opened(t: TestContext) {
  const file = join(await newFolder(t), 'leat.db');
  const { connection, store } = await openWith(
    file,
    createWalSync({
      clock: systemClock,
      sync: () => Promise.resolve(),
      repair: () => undefined,
      report: storeDeps.report,
    }),
  );
  t.after(() => store.close());
  const fixture = fixtureOf(store, (await addTenant(store, 'main')).id);
  return {
    db: createDatabase(connection),
    fixture,
    /** Adds streams with these types and owns them all. */
    own: async (types: readonly string[]) => {
      for (const type of types) await fixture.addStream({ types: [type] });
      const claim = { claim: nextClaim(), take: 100, ...waitRule };
      return store.ownership.claim(await fixture.node(), claim);
    },
  };
}
