import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Stream } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import { createFixture, type Fixture, retry, start } from './fixture.ts';

export function skippedContract(engine: Engine): void {
  describe(`${engine.name}: streams.skipped`, () => rangesContract(engine));
}

const newest = { after: undefined, take: 10 };

async function enable(fixture: Fixture, stream: Stream, resume?: 'latest' | 'held') {
  const { update } = fixture.store.streams;
  const result = await update(fixture.tenant, stream.id, (before) => ({
    after: { ...before, status: 'enabled' },
    resume,
  }));
  assert.ok('updated' in result);
  return result;
}

const skippedOf = async (fixture: Fixture, stream: Stream) =>
  (await fixture.store.streams.skipped(fixture.tenant, stream.id, newest)).items;

function rangesContract(engine: Engine): void {
  test('latest: what it passed over is kept, without events that have a row', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    await fixture.settle(owned, { cursor: one.offset, outcomes: [retry(two)] });
    const { update } = fixture.store.streams;
    await update(fixture.tenant, stream.id, (before) => ({
      after: { ...before, status: 'disabled' },
    }));
    await fixture.publish('user.created', 'user.deleted', 'user.created');
    fixture.now += 5000;
    const { skipped } = await enable(fixture, stream, 'latest');
    assert.equal(skipped, 2);
    const range = { from: 1, to: 5, events: 2, atLeast: false, at: start + 5000 };
    assert.deepEqual(await skippedOf(fixture, stream), [range]);
  });

  test('held, an enabled stream, and a range without wanted events leave none', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ status: 'disabled' });
    await enable(fixture, stream);
    assert.deepEqual(await skippedOf(fixture, stream), []);
    await fixture.publish('user.created');
    await enable(fixture, stream);
    assert.deepEqual(await skippedOf(fixture, stream), []);
    const other = await fixture.addStream({ status: 'disabled' });
    await fixture.publish('user.deleted');
    await enable(fixture, other);
    assert.deepEqual(await skippedOf(fixture, other), []);
    const held = await fixture.addStream({ status: 'disabled' });
    await fixture.publish('user.created');
    await enable(fixture, held, 'held');
    assert.deepEqual(await skippedOf(fixture, held), []);
  });

  test('no event of a range was accepted after its instant, also when the clock was set back', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ status: 'disabled' });
    fixture.now += 60_000;
    await fixture.publish('user.created');
    fixture.now -= 30_000;
    await enable(fixture, stream);
    assert.deepEqual(
      (await skippedOf(fixture, stream)).map(({ at }) => at),
      [start + 60_000],
    );
  });

  test('pages: newest first, each range once; deleting the stream removes them', async (t) => {
    const fixture = await createFixture(engine, t);
    const { streams } = fixture.store;
    const stream = await fixture.addStream({ status: 'disabled' });
    for (let round = 0; round < 5; round += 1) {
      await fixture.publish('user.created');
      await enable(fixture, stream);
      await streams.update(fixture.tenant, stream.id, (before) => ({
        after: { ...before, status: 'disabled' },
      }));
    }
    const seen: number[] = [];
    let after: string | undefined;
    do {
      const page = await streams.skipped(fixture.tenant, stream.id, { after, take: 2 });
      seen.push(...page.items.map(({ from }) => from));
      after = page.next;
    } while (after !== undefined);
    assert.deepEqual(seen, [4, 3, 2, 1, 0]);
    await streams.delete(fixture.tenant, stream.id);
    assert.deepEqual(await skippedOf(fixture, stream), []);
  });

  test('prune: removes the ranges whose events are all pruned, a few at a time', async (t) => {
    const fixture = await createFixture(engine, t);
    const { streams, log, eventLog } = fixture.store;
    const stream = await fixture.addStream({ status: 'disabled' });
    for (let round = 0; round < 4; round += 1) {
      await fixture.publish('user.created', 'user.created');
      await enable(fixture, stream);
      await streams.update(fixture.tenant, stream.id, (before) => ({
        after: { ...before, status: 'disabled' },
      }));
    }
    fixture.now += 1000;
    await fixture.publish('user.created');
    assert.equal(await eventLog.prune(fixture.tenant, 10), 0);
    assert.equal(await log.prune(fixture.tenant, { olderThanMs: 500, take: 7 }), 7);
    assert.equal(await eventLog.prune(fixture.tenant, 2), 2);
    assert.equal(await eventLog.prune(fixture.tenant, 2), 1);
    assert.equal(await eventLog.prune(fixture.tenant, 2), 0);
    assert.deepEqual(
      (await skippedOf(fixture, stream)).map(({ from }) => from),
      [6],
    );
  });
}
