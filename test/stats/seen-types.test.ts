import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { SeenTypes } from '../../src/stats/seen-types.ts';
import { eventTypesMax, type SeenType } from '../../src/store/port/event-types.ts';
import { createManualClock } from '../helpers/clock.ts';
import { createFixture, type Fixture, newEvent } from '../store/contract/fixture.ts';
import { sqliteMemory } from '../store/engines.ts';

interface Opened {
  readonly fixture: Fixture;
  readonly seen: SeenTypes;
  /** Calls of the store, by the number of rows. */
  readonly writes: number[];
  /** Called before each write. */
  before: () => void;
  flush(): Promise<void>;
  /** Publishes an event of each type. */
  publish(...types: readonly string[]): Promise<void>;
  /** Returns the types that were recorded, with the offsets of their newest events. */
  recorded(): Promise<[string, number][]>;
}

async function open(t: TestContext, rowsMax = 100): Promise<Opened> {
  const fixture = await createFixture(sqliteMemory, t);
  const { store, tenant } = fixture;
  const clock = createManualClock();
  const writes: number[] = [];
  const last = new Map<string, number>();
  const record = async (rows: readonly SeenType[]): Promise<void> => {
    opened.before();
    writes.push(rows.length);
    await store.eventTypes.record(rows);
    for (const { type, offset } of rows) last.set(type, offset);
  };
  const seen = new SeenTypes({ store: { record }, clock, rowsMax });
  t.after(store.watch((hint) => hint.kind === 'appended' && seen.add(hint)));
  const opened: Opened = {
    fixture,
    seen,
    writes,
    before: () => undefined,
    flush: async () => {
      const end = seen.flush();
      await clock.advance(1);
      await end;
    },
    publish: async (...types) => void (await fixture.publish(...types)),
    recorded: async () => {
      const listed = await store.eventTypes.list(tenant, {
        after: undefined,
        take: 5_000,
        isSampled: () => false,
      });
      assert.equal(listed.length, last.size);
      return [...last].toSorted(([one], [other]) => (one < other ? -1 : 1));
    },
  };
  return opened;
}

describe('SeenTypes', () => {
  test('types without bound: what one tenant publishes takes bounded memory', async (t) => {
    const opened = await open(t);
    const { seen, fixture } = opened;
    const [event] = await fixture.publish('a.made');
    assert.ok(event !== undefined);
    await opened.flush();
    for (let count = 0; count < eventTypesMax + 500; count += 1) {
      seen.add({
        tenant: fixture.tenant,
        events: [{ ...event, publishedAt: 1, type: `t.n${count}` }],
      });
    }
    await opened.flush();
    const sum = opened.writes.reduce((one, other) => one + other, 0);
    assert.equal(sum, 1 + eventTypesMax);
  });

  test('flush: writes the newest event of each type once, in bounded parts', async (t) => {
    const opened = await open(t, 2);
    await opened.publish('a.made', 'b.made', 'a.made', 'c.made');
    await opened.flush();
    await opened.flush();
    assert.deepEqual(opened.writes, [2, 1]);
    assert.deepEqual(await opened.recorded(), [
      ['a.made', 3],
      ['b.made', 2],
      ['c.made', 4],
    ]);
  });

  test('flush: what the store refused, or what is published meanwhile, is written the next time', async (t) => {
    const opened = await open(t);
    await opened.publish('a.made', 'b.made');
    opened.before = () => {
      throw new Error('The disk is full.');
    };
    await assert.rejects(opened.seen.flush(), /disk is full/);
    const { fixture, seen } = opened;
    const event = { ...(await fixture.publish('c.made'))[0] };
    opened.before = () => {
      opened.before = () => undefined;
      seen.add({
        tenant: fixture.tenant,
        events: [{ ...event, type: 'a.made', offset: 9, publishedAt: 1 } as never],
      });
    };
    await opened.flush();
    await opened.flush();
    assert.deepEqual(opened.writes, [3, 1]);
    assert.deepEqual(await opened.recorded(), [
      ['a.made', 9],
      ['b.made', 2],
      ['c.made', 3],
    ]);
  });

  test('clear: forgets offsets of another log', async (t) => {
    const opened = await open(t);
    await opened.publish('a.made');
    opened.seen.clear();
    await opened.flush();
    assert.deepEqual(opened.writes, []);
  });

  test('clear: during a write the rest of the former log is not written, and what comes after it is', async (t) => {
    const opened = await open(t, 1);
    const { store, tenant } = opened.fixture;
    const add = (...types: readonly string[]): void => {
      const event = { ...newEvent({ type: '' }), offset: 1, publishedAt: 1 };
      opened.seen.add({ tenant, events: types.map((type) => ({ ...event, type })) });
    };
    add('a.former', 'b.former');
    opened.before = () => {
      opened.before = () => undefined;
      opened.seen.clear();
      add('c.present');
    };
    await opened.flush();
    await opened.flush();
    const query = { after: undefined, take: 10, isSampled: () => false };
    const types = (await store.eventTypes.list(tenant, query)).map(({ type }) => type);
    assert.deepEqual(types, ['a.former', 'c.present']);
  });

  test('a flush ends although tenants publish while the types of others are written', async () => {
    let writes = 0;
    const publish = (tenant: number): void => {
      const event = { ...newEvent(), offset: writes + 1, publishedAt: 0 };
      seen.add({ tenant, events: [event] });
    };
    const record = (rows: readonly SeenType[]): Promise<void> => {
      writes += 1;
      assert.ok(writes < 100, 'the flush ends');
      for (const { tenant } of rows) publish(3 - tenant);
      return Promise.resolve();
    };
    const clock = createManualClock();
    const seen = new SeenTypes({ store: { record }, clock, rowsMax: 1 });
    publish(1);
    publish(2);
    const flushed = seen.flush();
    await clock.advance(1000);
    await flushed;
    assert.equal(writes, 2);
  });
});
