import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { checkOf, formatOffset, parseOffset } from '../../src/core/offset.ts';
import { errorFrame, greeting, heartbeat, offsetFrame } from '../../src/core/sse.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createPullFixture, type PullFixture, range, settings, shown, Wire } from './fixture.ts';

/** Prunes `count` events; on a busy machine that takes more than one step. */
async function prune({ store, tenant }: PullFixture, count: number): Promise<void> {
  for (let left = count; left > 0;) {
    const pruned = await store.log.prune(tenant, { olderThanMs: -1, take: left });
    assert.ok(pruned > 0, `${left} of ${count} are left`);
    left -= pruned;
  }
}

async function openFixture(
  t: TestContext,
  options?: Parameters<typeof createPullFixture>[0],
): Promise<PullFixture> {
  const fixture = await createPullFixture(options);
  t.after(() => fixture.close());
  return fixture;
}

const many = (count: number, type = 'a.made'): string[] => Array<string>(count).fill(type);

describe('a live reader', () => {
  test('a live reader receives new events in order, filtered by type', async (t) => {
    const fixture = await openFixture(t);
    const all = await fixture.open();
    const some = await fixture.open({ types: ['b.made', 'c.made', 'b.made'] });
    await fixture.append('a.made', 'b.made');
    await fixture.append('c.made');
    assert.deepEqual(all.offsets, shown(1, 2, 3));
    assert.deepEqual(some.offsets, shown(2, 3));
    assert.ok(all.text.startsWith(greeting));
  });

  test('a live reader receives a heartbeat every 15 s, with its position when that has moved', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open({ types: ['b.made'] });
    await fixture.clock.advance(14_000);
    assert.equal(wire.text, greeting);
    await fixture.clock.advance(1_500);
    assert.equal(wire.text, greeting + heartbeat, 'nothing has moved');
    await fixture.append('a.made', 'a.made');
    assert.equal(wire.text, greeting + heartbeat);
    await fixture.clock.advance(15_000);
    assert.equal(wire.plain, greeting + heartbeat + heartbeat + offsetFrame({ offset: 2 }));
    await fixture.clock.advance(15_000);
    assert.equal(wire.text.split(heartbeat).length - 1, 3);
    assert.equal(wire.text.split('offset-only').length - 1, 1, 'its position is unchanged');
  });

  test('a live reader receives its position with the check of an event that it did not receive', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open({ types: ['b.made'] });
    const head = await fixture.append('a.made', 'a.made');
    // Long enough for the event to leave memory.
    await fixture.clock.advance(15_500);
    const { events } = await fixture.store.log.page(fixture.tenant, {
      after: 1,
      take: 1,
      bytesMax: 1,
    });
    assert.ok(wire.text.endsWith(`"${formatOffset(head, events[0]?.id)}"}\n\n`), wire.text);
    const later = await fixture.open({ after: 1, types: ['b.made'] });
    await fixture.clock.advance(15_500);
    assert.ok(later.text.endsWith(`"${formatOffset(head, events[0]?.id)}"}\n\n`), later.text);
  });

  test('a live reader receives no position that it knows from an event', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open({ types: ['b.made'] });
    await fixture.append('a.made', 'b.made');
    await fixture.clock.advance(15_500);
    assert.doesNotMatch(wire.text, /offset-only/);
  });

  test('a reader without an offset receives that of its start, one that has it does not', async (t) => {
    const fixture = await openFixture(t);
    const first = await fixture.open({ isNew: true });
    assert.equal(first.text, greeting + offsetFrame({ offset: 0 }));
    const head = await fixture.append('a.made', 'b.made');
    const later = await fixture.open({ isNew: true, types: ['c.made'] });
    assert.equal(later.plain, greeting + offsetFrame({ offset: head }));
    const [, offset = ''] = /^id: (.*)$/m.exec(later.text) ?? [];
    const check = parseOffset(offset);
    assert.ok(check?.check !== undefined, 'a later request can check that it belongs to this log');
    assert.equal((await fixture.open({ after: head })).text, greeting);
    await prune(fixture, 2);
    const pruned = await fixture.open({ isNew: true });
    assert.equal(pruned.text, greeting, 'the log does not have the event of the position');
  });

  test('a live reader ends within 5 minutes, without an error, and not at the same time as others', async (t) => {
    const fixture = await openFixture(t);
    const wires = await Promise.all(range(1, 40).map((n) => fixture.open({ client: `c${n}` })));
    await fixture.clock.advance(269_000);
    assert.ok(wires.every(({ outcome }) => outcome === 'open'));
    await fixture.clock.advance(15_000);
    const half = wires.filter(({ outcome }) => outcome === 'ended').length;
    assert.ok(half > 3 && half < 37, `${half} of 40 have ended at half of the spread`);
    await fixture.clock.advance(16_000);
    assert.ok(wires.every(({ outcome }) => outcome === 'ended'));
    assert.ok(wires.every(({ text }) => !text.includes('event: error')));
    assert.equal(fixture.pulls.open, 0);
  });

  test('a closed connection leaves no timer', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open();
    assert.equal(fixture.clock.pending, 1);
    wire.events?.gone();
    assert.equal(fixture.clock.pending, 0);
    assert.equal(fixture.pulls.open, 0);
    await fixture.append('a.made');
    assert.equal(wire.text, greeting);
  });

  test('a live reader receives no events of another tenant', async (t) => {
    const fixture = await openFixture(t);
    const other = await fixture.store.tenants.create({ name: 'other', domain: 'o' }, 0);
    assert.ok('created' in other);
    const wire = await fixture.open({ tenant: other.created.id });
    await fixture.append('a.made');
    assert.deepEqual(wire.offsets, []);
  });
});

describe('a reader that is behind', () => {
  test('a reader that is behind receives every event after its offset once, while more are appended', async (t) => {
    const fixture = await openFixture(t, { settings: { pageEvents: 7 } });
    await fixture.append(...many(100));
    const opening = fixture.open({ after: 20 });
    await fixture.append(...many(50));
    const wire = await opening;
    await fixture.append(...many(50));
    await fixture.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(21, 200)));
  });

  test('a reader that is behind reads pages only as fast as its client reads', async (t) => {
    const pages: number[] = [];
    const fixture = await openFixture(t, {
      settings: { pageBytes: 1000 },
      around: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: (tenant, query) => {
            pages.push(query.after);
            return store.log.page(tenant, query);
          },
        },
      }),
    });
    await fixture.append(...many(2000));
    const wire = await fixture.open({ after: 0, wire: new Wire(false) });
    await fixture.clock.advance(1_000);
    const read = pages.length;
    assert.ok(wire.waiting < 65_536 + 20_000, `${wire.waiting} bytes wait`);
    await fixture.clock.advance(settings.stalledMs - 2_000);
    assert.equal(pages.length, read, 'nothing more is read');
    wire.take(true);
    await fixture.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(1, 2000)));
  });

  test('a reader that is behind shares its pages with others at the same offset', async (t) => {
    let pages = 0;
    const fixture = await openFixture(t, {
      around: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: (tenant, query) => {
            pages += 1;
            return store.log.page(tenant, query);
          },
        },
      }),
    });
    await fixture.appendLong(1000);
    const wires = await Promise.all(
      range(1, 20).map((n) => fixture.open({ after: 0, client: `c${n}` })),
    );
    await fixture.clock.advance(0);
    for (const wire of wires) assert.deepEqual(wire.offsets, shown(...range(1, 1000)));
    assert.ok(pages < 40, `${pages} pages were read for 20 readers`);
    // A page is cached only until more is appended.
    await fixture.appendLong(1);
    const late = await fixture.open({ after: 0 });
    await fixture.clock.advance(0);
    assert.deepEqual(late.offsets, shown(...range(1, 1001)));
  });

  test('a reader that has read the log further than this node knew receives the next event at once', async (t) => {
    const held: (() => void)[] = [];
    let holds = true;
    const fixture = await openFixture(t, {
      // Events are in the log before this node receives the hint of them.
      around: (store) => ({
        ...store,
        watch: (listener) =>
          store.watch((hint) => {
            if (holds) held.push(() => listener(hint));
            else listener(hint);
          }),
      }),
    });
    await fixture.append('a.made');
    const live = await fixture.open();
    await fixture.append('a.made');
    const [behind, filtered] = await Promise.all([
      fixture.open({ after: 0 }),
      fixture.open({ after: 0, types: ['a.made'] }),
    ]);
    assert.deepEqual(behind.offsets, shown(1, 2), 'it has read above the head of this node');
    holds = false;
    for (const emit of held) emit();
    await fixture.append('a.made');
    await fixture.clock.advance(0);
    assert.deepEqual(live.offsets, shown(2, 3));
    for (const wire of [behind, filtered]) assert.deepEqual(wire.offsets, shown(1, 2, 3));
  });

  test('a reader that is behind receives its position while no event matches', async (t) => {
    const fixture = await openFixture(t);
    await fixture.append(...many(30));
    const wire = await fixture.open({ after: 0, types: ['b.made'] });
    await fixture.clock.advance(15_500);
    assert.ok(wire.plain.endsWith(offsetFrame({ offset: 30 })));
  });

  test('a reader that is behind receives an error when the log was pruned before it could read it', async (t) => {
    const fixture = await openFixture(t, { settings: { pageBytes: 1000 } });
    await fixture.append(...many(2000));
    const filtered = await fixture.open({ after: 0, types: ['a.made'], wire: new Wire(false) });
    const all = await fixture.open({ after: 0, wire: new Wire(false) });
    const read = all.offsets.length;
    assert.ok(read > 0 && read < 1000, `${read} of 2000 were read`);
    await fixture.clock.advance(1000);
    await prune(fixture, 1500);
    for (const wire of [all, filtered]) {
      wire.take(true);
      await fixture.clock.advance(0);
      assert.deepEqual(wire.offsets, shown(...range(1, read)));
      assert.ok(wire.plain.endsWith(errorFrame('cursor_expired', { offset: read })));
      assert.equal(wire.outcome, 'ended');
    }
    assert.equal(fixture.pulls.open, 0);
  });

  test('a reader that is behind receives no error when only events that it has read were pruned', async (t) => {
    const fixture = await openFixture(t, { settings: { pageBytes: 1000 } });
    await fixture.append(...many(2000));
    const wire = await fixture.open({ after: 0, types: ['a.made'], wire: new Wire(false) });
    const read = wire.offsets.length;
    await fixture.clock.advance(1000);
    await prune(fixture, read);
    wire.take(true);
    await fixture.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(1, 2000)));
  });
});

describe('a client that does not read', () => {
  test('a client is cut off once 1 MiB waits and the timeout is over, and that is logged', async (t) => {
    const fixture = await openFixture(t);
    const slow = await fixture.open({ client: 'slow', wire: new Wire(false) });
    const quick = await fixture.open({ client: 'quick' });
    for (let round = 0; round < 40; round += 1) await fixture.append(...many(500));
    assert.ok(slow.waiting <= 1_048_576, `${slow.waiting} bytes wait`);
    assert.ok(slow.waiting > 900_000, `${slow.waiting} bytes wait`);
    assert.equal(slow.stallsMs, settings.stalledMs);
    assert.equal(quick.stallsMs, undefined);
    const read = slow.offsets.length;
    await fixture.clock.advance(settings.stalledMs - 100);
    assert.equal(slow.outcome, 'open');
    // Several ticks have passed meanwhile.
    await fixture.clock.advance(100);
    assert.equal(slow.outcome, 'cut');
    assert.deepEqual(fixture.logged, [
      {
        facts: { tenant: fixture.tenant, client: 'slow', offset: read },
        message: 'a pull was closed because its client did not read',
      },
    ]);
    assert.equal(quick.offsets.length, 20_000);
    assert.equal(fixture.pulls.open, 1);
  });

  test('a client that does not read misses no event when it reads again in time', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open({ wire: new Wire(false) });
    for (let round = 0; round < 40; round += 1) await fixture.append(...many(500));
    assert.ok(wire.offsets.length < 20_000);
    wire.take(true);
    await fixture.clock.advance(0);
    await fixture.append(...many(3));
    assert.deepEqual(wire.offsets, shown(...range(1, 20_003)));
    assert.equal(wire.stallsMs, undefined);
  });

  test('a client that reads a burst, or has nothing to read, is not cut off', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open();
    await fixture.append(...many(30_000));
    await fixture.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(1, 30_000)));
    wire.events?.stalled();
    await fixture.clock.advance(0);
    assert.equal(wire.outcome, 'open');
  });

  test('a client is cut off when too much waits in the log, and not before', async (t) => {
    const fixture = await openFixture(t);
    await fixture.append(...many(2000));
    const wire = await fixture.open({ after: 0, wire: new Wire(false) });
    assert.equal(wire.stallsMs, settings.stalledMs);
    await fixture.clock.advance(3 * settings.stalledMs);
    assert.equal(wire.outcome, 'open');
    const other = await fixture.open({ after: 0, types: ['b.made'] });
    await fixture.appendLong(1000);
    assert.ok(wire.waiting < 300_000, `${wire.waiting} bytes wait`);
    await fixture.clock.advance(settings.stalledMs);
    assert.equal(wire.outcome, 'cut');
    assert.equal(other.outcome, 'open');
  });

  test('a stalled client is checked again after a store outage during the first check', async (t) => {
    let isOut = false;
    const fixture = await openFixture(t, {
      around: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: async (...args) => {
            if (isOut) throw new StoreUnavailable('away');
            return store.log.page(...args);
          },
        },
      }),
    });
    await fixture.appendLong(1500);
    const wire = await fixture.open({ after: 0, wire: new Wire(false), types: ['a.made'] });
    isOut = true;
    await fixture.clock.advance(settings.stalledMs + 1_000);
    assert.equal(wire.outcome, 'open');
    isOut = false;
    await fixture.clock.advance(settings.stalledMs);
    assert.equal(wire.outcome, 'cut');
  });

  test('a client that reads during the check is not cut off', async (t) => {
    let release: (() => void) | undefined;
    let emit: (hint: Hint) => void = () => undefined;
    let isHeld = false;
    const fixture = await openFixture(t, {
      // This process receives no hints of its appends, and does not poll in time.
      settings: { pollMs: 1_000_000 },
      around: (store) => ({
        ...store,
        watch: (listener) => {
          emit = listener;
          return () => undefined;
        },
        log: {
          ...store.log,
          page: async (...args) => {
            const page = await store.log.page(...args);
            if (isHeld) await new Promise<void>((resolve) => (release = resolve));
            return page;
          },
        },
      }),
    });
    await fixture.appendLong(1);
    const wire = await fixture.open({ after: 0, wire: new Wire(false, 300) });
    assert.ok(wire.isBlocked);
    // The log has too much for it, which this node does not know.
    await fixture.appendLong(1200);
    isHeld = true;
    wire.events?.stalled();
    await fixture.clock.advance(0);
    assert.ok(release !== undefined);
    isHeld = false;
    // It reads everything and is live again.
    wire.take(false);
    emit({ kind: 'head', tenant: fixture.tenant, head: 400 });
    await fixture.clock.advance(0);
    assert.ok(wire.isBlocked);
    release();
    await fixture.clock.advance(0);
    assert.equal(wire.outcome, 'open');
  });

  test('a client that does not read the rest of an ended pull is cut off', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open({ wire: new Wire(false) });
    await fixture.append(...many(1000));
    assert.ok(wire.isBlocked);
    await fixture.clock.advance(300_000 + settings.stalledMs);
    assert.equal(wire.outcome, 'cut');
    assert.deepEqual(fixture.logged, [], 'it is not too much');
  });

  test('a client that does not read receives each event once although one chunk exceeds its limit', async (t) => {
    const fixture = await openFixture(t, { settings: { waitingBytesMax: 1000 } });
    const wires = [
      await fixture.open({ types: ['a.made'] }),
      await fixture.open({ types: ['a.made', 'b.made'] }),
    ];
    await fixture.appendLong(300);
    await fixture.clock.advance(0);
    for (const wire of wires) assert.deepEqual(wire.offsets, shown(...range(1, 300)));
  });

  test('a client that does not read receives no heartbeats while it does not read', async (t) => {
    const fixture = await openFixture(t);
    const wire = await fixture.open({ wire: new Wire(false) });
    await fixture.append(...many(1000));
    const { text } = wire;
    assert.ok(wire.isBlocked);
    await fixture.clock.advance(60_000);
    assert.equal(wire.text, text);
  });
});

describe('the token of a reader', () => {
  test('the token of a reader ends the pull without an error once it is invalid', async (t) => {
    const fixture = await openFixture(t);
    let stillValid = true;
    const ending = await fixture.open({ client: 'one', stillValid: () => stillValid });
    const endingAsync = await fixture.open({ client: 'two', stillValid: async () => stillValid });
    const other = await fixture.open({ client: 'three' });
    await fixture.clock.advance(10_000);
    assert.equal(ending.outcome, 'open');
    stillValid = false;
    await fixture.clock.advance(500);
    assert.equal(ending.outcome, 'ended');
    assert.equal(endingAsync.outcome, 'ended');
    assert.equal(other.outcome, 'open');
    assert.equal(ending.text, greeting);
  });

  test('a changed client: its token is checked at once, once for all readers that share it', async (t) => {
    let emit: (hint: Hint) => void = () => undefined;
    const fixture = await openFixture(t, {
      around: (store) => ({
        ...store,
        watch: (listener) => {
          emit = listener;
          return store.watch(listener);
        },
      }),
    });
    let checks = 0;
    const stillValid = (): boolean => {
      checks += 1;
      return false;
    };
    const wires = await Promise.all([1, 2, 3].map(() => fixture.open({ stillValid })));
    emit({ kind: 'client', tenant: fixture.tenant, client: 'client' });
    await fixture.clock.advance(0);
    assert.ok(wires.every(({ outcome }) => outcome === 'ended'));
    assert.equal(checks, 1);
  });

  test('the token of a reader counts as valid while it cannot be checked', async (t) => {
    const fixture = await openFixture(t);
    const stillValid = (): Promise<boolean> => Promise.reject(new StoreUnavailable('away'));
    const wire = await fixture.open({ stillValid });
    await fixture.clock.advance(5_000);
    assert.equal(wire.outcome, 'open');
    assert.deepEqual(fixture.logged, []);
  });
});

describe('a store outage', () => {
  const failing = (state: { error: Error | undefined }) => (store: Store) => ({
    ...store,
    log: {
      ...store.log,
      head: async (tenant: number) => {
        if (state.error !== undefined) throw state.error;
        return store.log.head(tenant);
      },
      page: async (...args: Parameters<Store['log']['page']>) => {
        if (state.error !== undefined) throw state.error;
        return store.log.page(...args);
      },
    },
  });

  test('a short outage: the reader continues afterwards', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const fixture = await openFixture(t, { around: failing(state) });
    await fixture.append(...many(2000));
    const wire = await fixture.open({ after: 0, wire: new Wire(false) });
    state.error = new StoreUnavailable('away');
    wire.take(true);
    await fixture.clock.advance(20_000);
    assert.equal(wire.outcome, 'open');
    state.error = undefined;
    await fixture.clock.advance(500);
    assert.deepEqual(wire.offsets, shown(...range(1, 2000)));
    state.error = new StoreUnavailable('away again');
    await fixture.clock.advance(25_000);
    assert.equal(wire.outcome, 'open');
  });

  test('an outage of 30 seconds ends the pull with an error', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const fixture = await openFixture(t, { around: failing(state) });
    await fixture.append(...many(3));
    const wire = await fixture.open({ after: 1 });
    state.error = new StoreUnavailable('away');
    await fixture.clock.advance(36_000);
    assert.ok(wire.plain.endsWith(errorFrame('service_unavailable', { offset: 3 })), wire.text);
    assert.equal(wire.outcome, 'ended');
    assert.deepEqual(fixture.logged, []);
  });

  test('errors contain no offset without the check of its event', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const fixture = await openFixture(t, { around: failing(state) });
    const empty = await fixture.open({ client: 'empty', types: ['b.made'] });
    await fixture.append(...many(3));
    const since = fixture.clock.now() + 60_000;
    const { events } = await fixture.store.log.page(fixture.tenant, {
      after: 2,
      take: 1,
      bytesMax: 1,
    });
    const checked = { offset: 3, check: checkOf(events[0]?.id ?? '') };
    const wires = {
      now: await fixture.open({ client: 'now' }),
      since: await fixture.open({ client: 'since', start: { since } }),
      checked: await fixture.open({ client: 'checked', start: { after: checked } }),
      unchecked: await fixture.open({ client: 'unchecked', after: 3 }),
    };
    // Long enough for the events to leave memory.
    await fixture.clock.advance(15_500);
    state.error = new StoreUnavailable('away');
    await fixture.clock.advance(36_000);
    const errorOf = ({ text }: Wire) => text.slice(text.indexOf('event: error'));
    const known = errorFrame('service_unavailable', checked);
    assert.equal(errorOf(wires.now), known);
    assert.equal(errorOf(wires.since), known);
    assert.equal(errorOf(wires.checked), known);
    assert.equal(errorOf(empty), known);
    for (const offset of errorOf(wires.unchecked).match(/MDAw[A-Za-z0-9]+/g) ?? []) {
      assert.notEqual(parseOffset(offset)?.check, undefined, offset);
    }
  });

  test('an unexpected error of the store ends the pull and is logged', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const fixture = await openFixture(t, { around: failing(state) });
    await fixture.append(...many(2000));
    const wire = await fixture.open({ after: 0, wire: new Wire(false) });
    const read = wire.offsets.length;
    state.error = new Error('a bug');
    wire.take(true);
    await fixture.clock.advance(0);
    assert.ok(
      wire.plain.endsWith(errorFrame('processing_error', { offset: read })),
      wire.text.slice(-200),
    );
    assert.equal(fixture.logged[0]?.message, 'a pull failed');
  });
});

describe('events of another process', () => {
  test('events of another process arrive by a hint of the head, by a `missed` hint, and by polling', async (t) => {
    let emit: (hint: Hint) => void = () => undefined;
    const fixture = await openFixture(t, {
      settings: { pageEvents: 2 },
      // This process receives no hints of its appends, as if another one had appended.
      around: (store) => ({
        ...store,
        watch: (listener) => {
          emit = listener;
          return () => undefined;
        },
      }),
    });
    const wires = await Promise.all([1, 2, 3].map(() => fixture.open()));
    const filtered = await fixture.open({ types: ['b.made'] });
    const all = (count: number): void => {
      for (const wire of wires) assert.deepEqual(wire.offsets, shown(...range(1, count)));
    };
    await fixture.append(...many(5), 'b.made');
    emit({ kind: 'head', tenant: fixture.tenant, head: 6 });
    await fixture.clock.advance(0);
    all(6);
    assert.deepEqual(filtered.offsets, shown(6));
    await fixture.append(...many(5));
    emit({ kind: 'missed' });
    await fixture.clock.advance(0);
    all(11);
    await fixture.append(...many(5));
    await fixture.clock.advance(0);
    all(11);
    await fixture.clock.advance(5_500);
    all(16);
    // A reader that starts above the head that this node knows receives only later events.
    await fixture.append(...many(4));
    const late = await fixture.open();
    await fixture.clock.advance(0);
    all(20);
    await fixture.append('a.made');
    emit({ kind: 'head', tenant: fixture.tenant, head: 21 });
    await fixture.clock.advance(0);
    assert.deepEqual(late.offsets, shown(21));
    all(21);
  });
});

/** A fixture whose reads of the log can be held, once they have been answered, and that can be sent hints. */
async function openHeld(t: TestContext): Promise<{
  fixture: PullFixture;
  /** Holds the next read of a kind; returns how to let it go. */
  hold: (read: 'head' | 'page') => () => Promise<void>;
  emit: (hint: Hint) => Promise<void>;
}> {
  const listeners = new Set<(hint: Hint) => void>();
  const held: { head?: Promise<void>; page?: Promise<void> } = {};
  const through =
    <A extends unknown[], T>(name: 'head' | 'page', read: (...args: A) => Promise<T>) =>
    async (...args: A): Promise<T> => {
      const wait = held[name];
      delete held[name];
      const result = await read(...args);
      await wait;
      return result;
    };
  const fixture = await openFixture(t, {
    // The hints of appends are lost.
    around: (store) => ({
      ...store,
      log: {
        ...store.log,
        head: through('head', store.log.head),
        page: through('page', store.log.page),
      },
      watch: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    }),
  });
  return {
    fixture,
    hold: (read) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      held[read] = promise;
      return async () => {
        resolve();
        await fixture.clock.advance(0);
      };
    },
    emit: async (hint) => {
      for (const listener of listeners) listener(hint);
      await fixture.clock.advance(0);
    },
  };
}

describe('what happens while the log is read', () => {
  test('a `missed` hint during a read of the head leads to another one', async (t) => {
    const { fixture, hold, emit } = await openHeld(t);
    const wire = await fixture.open();
    const release = hold('head');
    await emit({ kind: 'missed' });
    await fixture.append('a.made');
    await emit({ kind: 'missed' });
    assert.deepEqual(wire.offsets, []);
    await release();
    assert.deepEqual(wire.offsets, shown(1));
  });

  test('a pull that begins after a replacement waits for no read of before', async (t) => {
    const { fixture, hold, emit } = await openHeld(t);
    await fixture.append('a.made');
    await fixture.open();
    // The connections of the tenant are counted as long as one is reserved.
    const reserved = fixture.pulls.reserve(fixture.tenant, 'other');
    const release = hold('head');
    await emit({ kind: 'missed' });
    await emit({ kind: 'replaced' });
    const wire = await fixture.open({ after: 0 });
    await release();
    assert.deepEqual(wire.offsets, shown(1));
    reserved?.release();
  });

  test('a hint about the new log counts although a page of the former one is being read', async (t) => {
    const { fixture, hold, emit } = await openHeld(t);
    await fixture.append('a.made');
    await fixture.open();
    const reserved = fixture.pulls.reserve(fixture.tenant, 'other');
    const release = hold('page');
    const head = await fixture.append('a.made');
    await emit({ kind: 'head', tenant: fixture.tenant, head });
    await emit({ kind: 'replaced' });
    const wire = await fixture.open({ after: head });
    const next = await fixture.append('a.made');
    await emit({ kind: 'head', tenant: fixture.tenant, head: next });
    await release();
    assert.deepEqual(wire.offsets, shown(next));
    reserved?.release();
  });
});

describe('the replacement of the store', () => {
  test('the replacement of the store ends every pull without an error, and the head is read again', async (t) => {
    let head: number | undefined;
    const listeners = new Set<(hint: Hint) => void>();
    const fixture = await openFixture(t, {
      around: (store) => ({
        ...store,
        log: { ...store.log, head: async (tenant) => head ?? store.log.head(tenant) },
        watch: (listener) => {
          listeners.add(listener);
          return store.watch(listener);
        },
      }),
    });
    await fixture.append(...many(3));
    head = 20;
    const wires = await Promise.all([fixture.open(), fixture.open({ after: 20 })]);
    const reservation = fixture.pulls.reserve(fixture.tenant, 'late');
    for (const listener of listeners) listener({ kind: 'replaced' });
    assert.deepEqual(
      wires.map(({ outcome, text }) => [outcome, text]),
      wires.map(() => ['ended', greeting]),
    );
    // Its start was found in the former log.
    const late = new Wire();
    const access = { token: 'late', stillValid: () => true };
    late.events = reservation?.begin(
      { position: { offset: 20 }, types: undefined, isNew: true, access },
      late,
    );
    assert.equal(late.outcome, 'ended');
    assert.equal(fixture.pulls.open, 0);
    head = undefined;
    const wire = await fixture.open({ after: 3 });
    await fixture.append('a.made');
    assert.deepEqual(wire.offsets, shown(4));
  });
});

describe('the connection limit of a tenant', () => {
  test('the connection limit of a tenant holds for all pulls, and half of it, rounded up, for one client', async (t) => {
    const fixture = await openFixture(t, { settings: { connectionsMax: 5 } });
    const wires = [];
    for (const client of ['one', 'one', 'one']) wires.push(await fixture.open({ client }));
    assert.equal(fixture.pulls.isFree(fixture.tenant, 'one'), false);
    assert.equal(fixture.pulls.reserve(fixture.tenant, 'one'), undefined);
    for (const client of ['two', 'two']) wires.push(await fixture.open({ client }));
    assert.equal(fixture.pulls.reserve(fixture.tenant, 'three'), undefined);
    assert.equal(fixture.pulls.isFree(2, 'one'), true, 'another tenant');
    wires[0]?.events?.gone();
    wires[0]?.events?.gone();
    assert.equal(fixture.pulls.isFree(fixture.tenant, 'three'), true);
    await fixture.open({ client: 'three' });
    assert.equal(fixture.pulls.isFree(fixture.tenant, 'three'), false);
  });

  test('the connection limit of a tenant releases the reservation of a pull that does not start', async (t) => {
    const fixture = await openFixture(t, { settings: { connectionsMax: 1 } });
    for (let round = 0; round < 3; round += 1) {
      const reservation = fixture.pulls.reserve(fixture.tenant, 'one');
      assert.ok(reservation !== undefined);
      reservation.release();
    }
    assert.equal(fixture.clock.pending, 0);
  });
});

describe('shutdown', () => {
  test('shutdown ends every pull without an error, and cuts off clients that do not read', async (t) => {
    const fixture = await openFixture(t);
    const reading = await fixture.open();
    const stuck = await fixture.open({ wire: new Wire(false) });
    await fixture.append(...many(1000));
    const reservation = fixture.pulls.reserve(fixture.tenant, 'late');
    fixture.pulls.close();
    assert.equal(reading.outcome, 'ended');
    assert.equal(stuck.outcome, 'cut');
    assert.doesNotMatch(reading.text, /event: error/);
    const late = new Wire();
    reservation?.begin(
      {
        position: { offset: 0 },
        types: undefined,
        isNew: false,
        access: { token: '', stillValid: () => true },
      },
      late,
    );
    assert.equal(late.outcome, 'ended');
    assert.equal(fixture.clock.pending, 0);
  });
});
