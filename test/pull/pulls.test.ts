import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { checkOf, formatOffset, parseOffset } from '../../src/core/offset.ts';
import { errorFrame, greeting, heartbeat, offsetFrame } from '../../src/core/sse.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import { openScene, type PullScene, range, settings, shown, Wire } from './fixture.ts';

/** Prunes so many events; on a busy machine that takes more than one step. */
async function prune({ store, tenant }: PullScene, count: number): Promise<void> {
  for (let left = count; left > 0;) {
    const pruned = await store.log.prune(tenant, { olderThanMs: -1, take: left });
    assert.ok(pruned > 0, `${left} of ${count} are left`);
    left -= pruned;
  }
}

async function sceneOf(
  t: TestContext,
  options?: Parameters<typeof openScene>[0],
): Promise<PullScene> {
  const scene = await openScene(options);
  t.after(() => scene.close());
  return scene;
}

const many = (count: number, type = 'a.made'): string[] => Array<string>(count).fill(type);

describe('a reader at the end of the log', () => {
  test('is handed what joins it, in order, with what its filter wants', async (t) => {
    const scene = await sceneOf(t);
    const all = await scene.open();
    const some = await scene.open({ types: ['b.made', 'c.made', 'b.made'] });
    await scene.append('a.made', 'b.made');
    await scene.append('c.made');
    assert.deepEqual(all.offsets, shown(1, 2, 3));
    assert.deepEqual(some.offsets, shown(2, 3));
    assert.ok(all.text.startsWith(greeting));
  });

  test('is given a sign of life every 15 s, and its position when that has moved', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open({ types: ['b.made'] });
    await scene.clock.advance(14_000);
    assert.equal(wire.text, greeting);
    await scene.clock.advance(1_500);
    assert.equal(wire.text, greeting + heartbeat, 'nothing has moved');
    await scene.append('a.made', 'a.made');
    assert.equal(wire.text, greeting + heartbeat);
    await scene.clock.advance(15_000);
    assert.equal(wire.plain, greeting + heartbeat + heartbeat + offsetFrame({ offset: 2 }));
    await scene.clock.advance(15_000);
    assert.equal(wire.text.split(heartbeat).length - 1, 3);
    assert.equal(wire.text.split('offset-only').length - 1, 1, 'it stands where it stood');
  });

  test('is told its position with the check of an event that it was not given', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open({ types: ['b.made'] });
    const head = await scene.append('a.made', 'a.made');
    // Long enough for the event to leave the memory.
    await scene.clock.advance(15_500);
    const { events } = await scene.store.log.page(scene.tenant, { after: 1, take: 1, bytesMax: 1 });
    assert.ok(wire.text.endsWith(`"${formatOffset(head, events[0]?.id)}"}\n\n`), wire.text);
    const later = await scene.open({ after: 1, types: ['b.made'] });
    await scene.clock.advance(15_500);
    assert.ok(later.text.endsWith(`"${formatOffset(head, events[0]?.id)}"}\n\n`), later.text);
  });

  test('is told no position that an event has told it', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open({ types: ['b.made'] });
    await scene.append('a.made', 'b.made');
    await scene.clock.advance(15_500);
    assert.doesNotMatch(wire.text, /offset-only/);
  });

  test('is sent away within 5 minutes, without an error, and not with all others', async (t) => {
    const scene = await sceneOf(t);
    const wires = await Promise.all(range(1, 40).map((n) => scene.open({ client: `c${n}` })));
    await scene.clock.advance(269_000);
    assert.ok(wires.every(({ outcome }) => outcome === 'open'));
    await scene.clock.advance(15_000);
    const half = wires.filter(({ outcome }) => outcome === 'ended').length;
    assert.ok(half > 3 && half < 37, `${half} of 40 have ended at half of the spread`);
    await scene.clock.advance(16_000);
    assert.ok(wires.every(({ outcome }) => outcome === 'ended'));
    assert.ok(wires.every(({ text }) => !text.includes('event: error')));
    assert.equal(scene.pulls.open, 0);
  });

  test('costs no timer once it is gone', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open();
    assert.equal(scene.clock.pending, 1);
    wire.events?.gone();
    assert.equal(scene.clock.pending, 0);
    assert.equal(scene.pulls.open, 0);
    await scene.append('a.made');
    assert.equal(wire.text, greeting);
  });

  test('is not handed what another tenant appends', async (t) => {
    const scene = await sceneOf(t);
    const other = await scene.store.tenants.create({ name: 'other', domain: 'o' }, 0);
    assert.ok('created' in other);
    const wire = await scene.open({ tenant: other.created.id });
    await scene.append('a.made');
    assert.deepEqual(wire.offsets, []);
  });
});

describe('a reader that begins before the end of the log', () => {
  test('is given everything after its offset once, while more is appended', async (t) => {
    const scene = await sceneOf(t, { settings: { pageEvents: 7 } });
    await scene.append(...many(100));
    const opening = scene.open({ after: 20 });
    await scene.append(...many(50));
    const wire = await opening;
    await scene.append(...many(50));
    await scene.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(21, 200)));
  });

  test('reads no further than its client does', async (t) => {
    const pages: number[] = [];
    const scene = await sceneOf(t, {
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
    await scene.append(...many(2000));
    const wire = await scene.open({ after: 0, wire: new Wire(false) });
    await scene.clock.advance(1_000);
    const read = pages.length;
    assert.ok(wire.waiting < 65_536 + 20_000, `${wire.waiting} bytes wait`);
    await scene.clock.advance(settings.stalledMs - 2_000);
    assert.equal(pages.length, read, 'nothing more is read');
    wire.take(true);
    await scene.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(1, 2000)));
  });

  test('shares its pages with others at the same place', async (t) => {
    let pages = 0;
    const scene = await sceneOf(t, {
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
    await scene.appendLong(1000);
    const wires = await Promise.all(
      range(1, 20).map((n) => scene.open({ after: 0, client: `c${n}` })),
    );
    await scene.clock.advance(0);
    for (const wire of wires) assert.deepEqual(wire.offsets, shown(...range(1, 1000)));
    assert.ok(pages < 40, `${pages} pages were read for 20 readers`);
    // What is on the shelf is not what a reader gets who comes after more was appended.
    await scene.appendLong(1);
    const late = await scene.open({ after: 0 });
    await scene.clock.advance(0);
    assert.deepEqual(late.offsets, shown(...range(1, 1001)));
  });

  test('is told its position while nothing matches', async (t) => {
    const scene = await sceneOf(t);
    await scene.append(...many(30));
    const wire = await scene.open({ after: 0, types: ['b.made'] });
    await scene.clock.advance(15_500);
    assert.ok(wire.plain.endsWith(offsetFrame({ offset: 30 })));
  });

  test('is told when the log was pruned before it got there', async (t) => {
    const scene = await sceneOf(t, { settings: { pageBytes: 1000 } });
    await scene.append(...many(2000));
    const filtered = await scene.open({ after: 0, types: ['a.made'], wire: new Wire(false) });
    const all = await scene.open({ after: 0, wire: new Wire(false) });
    const read = all.offsets.length;
    assert.ok(read > 0 && read < 1000, `${read} of 2000 were read`);
    await scene.clock.advance(1000);
    await prune(scene, 1500);
    for (const wire of [all, filtered]) {
      wire.take(true);
      await scene.clock.advance(0);
      assert.deepEqual(wire.offsets, shown(...range(1, read)));
      assert.ok(wire.plain.endsWith(errorFrame('cursor_expired', { offset: read })));
      assert.equal(wire.outcome, 'ended');
    }
    assert.equal(scene.pulls.open, 0);
  });

  test('is not told so when what was pruned is what it has read', async (t) => {
    const scene = await sceneOf(t, { settings: { pageBytes: 1000 } });
    await scene.append(...many(2000));
    const wire = await scene.open({ after: 0, types: ['a.made'], wire: new Wire(false) });
    const read = wire.offsets.length;
    await scene.clock.advance(1000);
    await prune(scene, read);
    wire.take(true);
    await scene.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(1, 2000)));
  });
});

describe('a client that does not read', () => {
  test('is cut off once 1 MiB waits for it and nothing moves, and that is logged', async (t) => {
    const scene = await sceneOf(t);
    const slow = await scene.open({ client: 'slow', wire: new Wire(false) });
    const quick = await scene.open({ client: 'quick' });
    for (let round = 0; round < 40; round += 1) await scene.append(...many(500));
    assert.ok(slow.waiting <= 1_048_576, `${slow.waiting} bytes wait`);
    assert.ok(slow.waiting > 900_000, `${slow.waiting} bytes wait`);
    assert.equal(slow.stallsMs, settings.stalledMs);
    assert.equal(quick.stallsMs, undefined);
    const read = slow.offsets.length;
    await scene.clock.advance(settings.stalledMs - 100);
    assert.equal(slow.outcome, 'open');
    // Meanwhile its times are looked at again and again.
    await scene.clock.advance(100);
    assert.equal(slow.outcome, 'cut');
    assert.deepEqual(scene.logged, [
      {
        facts: { tenant: scene.tenant, client: 'slow', offset: read },
        message: 'a pull was closed because its client did not read',
      },
    ]);
    assert.equal(quick.offsets.length, 20_000);
    assert.equal(scene.pulls.open, 1);
  });

  test('and goes on reading in time misses nothing', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open({ wire: new Wire(false) });
    for (let round = 0; round < 40; round += 1) await scene.append(...many(500));
    assert.ok(wire.offsets.length < 20_000);
    wire.take(true);
    await scene.clock.advance(0);
    await scene.append(...many(3));
    assert.deepEqual(wire.offsets, shown(...range(1, 20_003)));
    assert.equal(wire.stallsMs, undefined);
  });

  test('is not taken for one by a burst that it takes, nor by silence', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open();
    await scene.append(...many(30_000));
    await scene.clock.advance(0);
    assert.deepEqual(wire.offsets, shown(...range(1, 30_000)));
    wire.events?.stalled();
    await scene.clock.advance(0);
    assert.equal(wire.outcome, 'open');
  });

  test('is cut off when what waits in the log is too much, and not before', async (t) => {
    const scene = await sceneOf(t);
    await scene.append(...many(2000));
    const wire = await scene.open({ after: 0, wire: new Wire(false) });
    assert.equal(wire.stallsMs, settings.stalledMs);
    await scene.clock.advance(3 * settings.stalledMs);
    assert.equal(wire.outcome, 'open');
    const other = await scene.open({ after: 0, types: ['b.made'] });
    await scene.appendLong(1000);
    assert.ok(wire.waiting < 300_000, `${wire.waiting} bytes wait`);
    await scene.clock.advance(settings.stalledMs);
    assert.equal(wire.outcome, 'cut');
    assert.equal(other.outcome, 'open');
  });

  test('is judged again when the store was away while it should have been', async (t) => {
    let isAway = false;
    const scene = await sceneOf(t, {
      around: (store) => ({
        ...store,
        log: {
          ...store.log,
          page: async (...args) => {
            if (isAway) throw new StoreUnavailable('away');
            return store.log.page(...args);
          },
        },
      }),
    });
    await scene.appendLong(1500);
    const wire = await scene.open({ after: 0, wire: new Wire(false), types: ['a.made'] });
    isAway = true;
    await scene.clock.advance(settings.stalledMs + 1_000);
    assert.equal(wire.outcome, 'open');
    isAway = false;
    await scene.clock.advance(settings.stalledMs);
    assert.equal(wire.outcome, 'cut');
  });

  test('is not cut off when it reads while that is being found out', async (t) => {
    let answer: (() => void) | undefined;
    let emit: (hint: Hint) => void = () => undefined;
    let isHeld = false;
    const scene = await sceneOf(t, {
      // Nothing of what this process appends is heard of, nor is the log asked in time.
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
            if (isHeld) await new Promise<void>((resolve) => (answer = resolve));
            return page;
          },
        },
      }),
    });
    await scene.appendLong(1);
    const wire = await scene.open({ after: 0, wire: new Wire(false, 300) });
    assert.ok(wire.isBlocked);
    // The log has too much for it, of which this node has not heard.
    await scene.appendLong(1200);
    isHeld = true;
    wire.events?.stalled();
    await scene.clock.advance(0);
    assert.ok(answer !== undefined);
    isHeld = false;
    // It takes all there is, and is handed what joins the log.
    wire.take(false);
    emit({ kind: 'head', tenant: scene.tenant, head: 400 });
    await scene.clock.advance(0);
    assert.ok(wire.isBlocked);
    answer();
    await scene.clock.advance(0);
    assert.equal(wire.outcome, 'open');
  });

  test('is not waited for when its pull has come to its end', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open({ wire: new Wire(false) });
    await scene.append(...many(1000));
    assert.ok(wire.isBlocked);
    await scene.clock.advance(300_000 + settings.stalledMs);
    assert.equal(wire.outcome, 'cut');
    assert.deepEqual(scene.logged, [], 'it is not too much');
  });

  test('is given each event once although a piece is more than may wait for it', async (t) => {
    const scene = await sceneOf(t, { settings: { waitingBytesMax: 1000 } });
    const wires = [
      await scene.open({ types: ['a.made'] }),
      await scene.open({ types: ['a.made', 'b.made'] }),
    ];
    await scene.appendLong(300);
    await scene.clock.advance(0);
    for (const wire of wires) assert.deepEqual(wire.offsets, shown(...range(1, 300)));
  });

  test('is not written signs of life that lie behind what it does not take', async (t) => {
    const scene = await sceneOf(t);
    const wire = await scene.open({ wire: new Wire(false) });
    await scene.append(...many(1000));
    const { text } = wire;
    assert.ok(wire.isBlocked);
    await scene.clock.advance(60_000);
    assert.equal(wire.text, text);
  });
});

describe('the token of a reader', () => {
  test('ends the pull without an error once it does not hold', async (t) => {
    const scene = await sceneOf(t);
    let stillValid = true;
    const ending = await scene.open({ client: 'one', stillValid: () => stillValid });
    const asked = await scene.open({ client: 'two', stillValid: async () => stillValid });
    const other = await scene.open({ client: 'three' });
    await scene.clock.advance(10_000);
    assert.equal(ending.outcome, 'open');
    stillValid = false;
    await scene.clock.advance(500);
    assert.equal(ending.outcome, 'ended');
    assert.equal(asked.outcome, 'ended');
    assert.equal(other.outcome, 'open');
    assert.equal(ending.text, greeting);
  });

  test('is judged at once when its client has changed, and once for all that share it', async (t) => {
    let emit: (hint: Hint) => void = () => undefined;
    const scene = await sceneOf(t, {
      around: (store) => ({
        ...store,
        watch: (listener) => {
          emit = listener;
          return store.watch(listener);
        },
      }),
    });
    let judged = 0;
    const stillValid = (): boolean => {
      judged += 1;
      return false;
    };
    const wires = await Promise.all([1, 2, 3].map(() => scene.open({ stillValid })));
    emit({ kind: 'client', tenant: scene.tenant, client: 'client' });
    await scene.clock.advance(0);
    assert.ok(wires.every(({ outcome }) => outcome === 'ended'));
    assert.equal(judged, 1);
  });

  test('counts as good while it cannot be judged', async (t) => {
    const scene = await sceneOf(t);
    const stillValid = (): Promise<boolean> => Promise.reject(new StoreUnavailable('away'));
    const wire = await scene.open({ stillValid });
    await scene.clock.advance(5_000);
    assert.equal(wire.outcome, 'open');
    assert.deepEqual(scene.logged, []);
  });
});

describe('the store of a reader', () => {
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

  test('may be away for a while, and the reader goes on', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const scene = await sceneOf(t, { around: failing(state) });
    await scene.append(...many(2000));
    const wire = await scene.open({ after: 0, wire: new Wire(false) });
    state.error = new StoreUnavailable('away');
    wire.take(true);
    await scene.clock.advance(20_000);
    assert.equal(wire.outcome, 'open');
    state.error = undefined;
    await scene.clock.advance(500);
    assert.deepEqual(wire.offsets, shown(...range(1, 2000)));
    state.error = new StoreUnavailable('away again');
    await scene.clock.advance(25_000);
    assert.equal(wire.outcome, 'open');
  });

  test('ends the pull with an error when it is away for long', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const scene = await sceneOf(t, { around: failing(state) });
    await scene.append(...many(3));
    const wire = await scene.open({ after: 1 });
    state.error = new StoreUnavailable('away');
    await scene.clock.advance(36_000);
    assert.ok(wire.plain.endsWith(errorFrame('service_unavailable', { offset: 3 })), wire.text);
    assert.equal(wire.outcome, 'ended');
    assert.deepEqual(scene.logged, []);
  });

  test('an error gives the client no offset without the check of its event', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const scene = await sceneOf(t, { around: failing(state) });
    const empty = await scene.open({ client: 'empty', types: ['b.made'] });
    await scene.append(...many(3));
    const since = scene.clock.now() + 60_000;
    const { events } = await scene.store.log.page(scene.tenant, { after: 2, take: 1, bytesMax: 1 });
    const checked = { offset: 3, check: checkOf(events[0]?.id ?? '') };
    const wires = {
      now: await scene.open({ client: 'now' }),
      since: await scene.open({ client: 'since', asked: { since } }),
      checked: await scene.open({ client: 'checked', asked: { after: checked } }),
      unchecked: await scene.open({ client: 'unchecked', after: 3 }),
    };
    // Long enough for the events to leave the memory.
    await scene.clock.advance(15_500);
    state.error = new StoreUnavailable('away');
    await scene.clock.advance(36_000);
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

  test('that fails for a reason nobody knows ends the pull, and the log knows it', async (t) => {
    const state: { error: Error | undefined } = { error: undefined };
    const scene = await sceneOf(t, { around: failing(state) });
    await scene.append(...many(2000));
    const wire = await scene.open({ after: 0, wire: new Wire(false) });
    const read = wire.offsets.length;
    state.error = new Error('a bug');
    wire.take(true);
    await scene.clock.advance(0);
    assert.ok(
      wire.plain.endsWith(errorFrame('processing_error', { offset: read })),
      wire.text.slice(-200),
    );
    assert.equal(scene.logged[0]?.message, 'a pull failed');
  });
});

describe('events that another process appends', () => {
  test('arrive by a hint of the head, by a missed hint, and without any in the end', async (t) => {
    let emit: (hint: Hint) => void = () => undefined;
    const scene = await sceneOf(t, {
      settings: { pageEvents: 2 },
      // Nothing of what this process appends is heard of: it is as if another one had.
      around: (store) => ({
        ...store,
        watch: (listener) => {
          emit = listener;
          return () => undefined;
        },
      }),
    });
    const wires = await Promise.all([1, 2, 3].map(() => scene.open()));
    const filtered = await scene.open({ types: ['b.made'] });
    const all = (count: number): void => {
      for (const wire of wires) assert.deepEqual(wire.offsets, shown(...range(1, count)));
    };
    await scene.append(...many(5), 'b.made');
    emit({ kind: 'head', tenant: scene.tenant, head: 6 });
    await scene.clock.advance(0);
    all(6);
    assert.deepEqual(filtered.offsets, shown(6));
    await scene.append(...many(5));
    emit({ kind: 'missed' });
    await scene.clock.advance(0);
    all(11);
    await scene.append(...many(5));
    await scene.clock.advance(0);
    all(11);
    await scene.clock.advance(5_500);
    all(16);
    // A reader that the store tells of more than this node has heard of gets only what follows.
    await scene.append(...many(4));
    const late = await scene.open();
    await scene.clock.advance(0);
    all(20);
    await scene.append('a.made');
    emit({ kind: 'head', tenant: scene.tenant, head: 21 });
    await scene.clock.advance(0);
    assert.deepEqual(late.offsets, shown(21));
    all(21);
  });
});

describe('the replacement of the store', () => {
  test('ends every pull without an error, and the log is asked for its head again', async (t) => {
    let head: number | undefined;
    const listeners = new Set<(hint: Hint) => void>();
    const scene = await sceneOf(t, {
      around: (store) => ({
        ...store,
        log: { ...store.log, head: async (tenant) => head ?? store.log.head(tenant) },
        watch: (listener) => {
          listeners.add(listener);
          return store.watch(listener);
        },
      }),
    });
    await scene.append(...many(3));
    head = 20;
    const wires = await Promise.all([scene.open(), scene.open({ after: 20 })]);
    const place = scene.pulls.reserve(scene.tenant, 'late');
    for (const listener of listeners) listener({ kind: 'replaced' });
    assert.deepEqual(
      wires.map(({ outcome, text }) => [outcome, text]),
      wires.map(() => ['ended', greeting]),
    );
    // Its beginning was found in the log of before.
    const late = new Wire();
    const access = { token: 'late', stillValid: () => true };
    late.events = place?.begin({ position: { offset: 20 }, types: undefined, access }, late);
    assert.equal(late.outcome, 'ended');
    assert.equal(scene.pulls.open, 0);
    head = undefined;
    const wire = await scene.open({ after: 3 });
    await scene.append('a.made');
    assert.deepEqual(wire.offsets, shown(4));
  });
});

describe('the places of a tenant', () => {
  test('are so many, and one client has half of them, rounded up', async (t) => {
    const scene = await sceneOf(t, { settings: { connectionsMax: 5 } });
    const wires = [];
    for (const client of ['one', 'one', 'one']) wires.push(await scene.open({ client }));
    assert.equal(scene.pulls.isFree(scene.tenant, 'one'), false);
    assert.equal(scene.pulls.reserve(scene.tenant, 'one'), undefined);
    for (const client of ['two', 'two']) wires.push(await scene.open({ client }));
    assert.equal(scene.pulls.reserve(scene.tenant, 'three'), undefined);
    assert.equal(scene.pulls.isFree(2, 'one'), true, 'of another tenant');
    wires[0]?.events?.gone();
    wires[0]?.events?.gone();
    assert.equal(scene.pulls.isFree(scene.tenant, 'three'), true);
    await scene.open({ client: 'three' });
    assert.equal(scene.pulls.isFree(scene.tenant, 'three'), false);
  });

  test('are given back by a pull that does not begin', async (t) => {
    const scene = await sceneOf(t, { settings: { connectionsMax: 1 } });
    for (let round = 0; round < 3; round += 1) {
      const place = scene.pulls.reserve(scene.tenant, 'one');
      assert.ok(place !== undefined);
      place.release();
    }
    assert.equal(scene.clock.pending, 0);
  });
});

describe('the end of the node', () => {
  test('ends every pull without an error, and cuts off who does not read', async (t) => {
    const scene = await sceneOf(t);
    const reading = await scene.open();
    const stuck = await scene.open({ wire: new Wire(false) });
    await scene.append(...many(1000));
    const place = scene.pulls.reserve(scene.tenant, 'late');
    scene.pulls.close();
    assert.equal(reading.outcome, 'ended');
    assert.equal(stuck.outcome, 'cut');
    assert.doesNotMatch(reading.text, /event: error/);
    const late = new Wire();
    place?.begin(
      { position: { offset: 0 }, types: undefined, access: { token: '', stillValid: () => true } },
      late,
    );
    assert.equal(late.outcome, 'ended');
    assert.equal(scene.clock.pending, 0);
  });
});
