import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { limits } from '../../src/config.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { greeting, heartbeat } from '../../src/core/sse.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import { Wire } from '../pull/fixture.ts';
import { createWatchFixture, messagesOf } from './fixture.ts';

const changed = (stream: string, tenant = 1): Hint => ({ kind: 'stream', tenant, stream });

describe('a connection that reports changes', () => {
  test('changes of another tenant: neither its streams nor that it has any', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const [node, elsewhere] = [addNode(), addNode()];
    const [wire, other] = [node.open(), node.open({ tenant: 2 })];
    elsewhere.open({ tenant: 2 });
    await clock.advance(5_000);
    node.hint(changed('est_secret', 2));
    node.hint({ kind: 'head', tenant: 2, head: 3 });
    node.settle('est_secret', 2);
    elsewhere.settle('est_other', 2);
    await clock.advance(5_000);
    assert.ok(wire.text.replaceAll(/^event: changed\n.*"all":true.*\n\n/gm, '') === greeting);
    const reported = new Set(messagesOf(other).flat());
    assert.deepEqual(reported, new Set(['all', 'est_secret', 'est_other']));
  });

  test('a client that does not read: what it misses merges, and arrives in one message', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const node = addNode();
    const wire = new Wire(false, 1);
    node.open({ wire });
    const reader = node.open();
    await clock.advance(1_000);
    for (const stream of ['est_1', 'est_2', 'est_1']) {
      node.hint(changed(stream));
      await clock.advance(1_000);
    }
    assert.equal(wire.text, greeting);
    assert.deepEqual(messagesOf(reader), ['all', ['est_1'], ['est_2'], ['est_1']]);
    wire.take(true);
    await clock.advance(1_000);
    node.hint(changed('est_3'));
    await clock.advance(1_000);
    assert.deepEqual(messagesOf(wire), ['all', ['est_3']]);
    wire.take(false);
    node.hint(changed('est_4'));
    await clock.advance(1_000);
    for (const stream of ['est_5', 'est_6']) {
      node.hint(changed(stream));
      await clock.advance(1_000);
    }
    wire.take(true);
    await clock.advance(1_000);
    assert.deepEqual(messagesOf(wire).slice(2), [['est_4'], ['est_5', 'est_6']]);
  });

  test('a client that never reads is cut off after 5 s, and costs no memory by streams', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const node = addNode();
    const wire = new Wire(false, 1);
    node.open({ wire });
    await clock.advance(4_000);
    assert.equal(wire.outcome, 'open');
    await clock.advance(3_000);
    assert.equal(wire.outcome, 'cut');
    assert.equal(node.watchers.open, 0);
  });

  test('a hundred streams are named, more of them are all', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const node = addNode();
    const wire = node.open();
    await clock.advance(1_000);
    for (let count = 0; count < 100; count += 1) node.hint(changed(`est_${count}`));
    await clock.advance(1_000);
    for (let count = 0; count < 10_000; count += 1) node.hint(changed(`est_${count}`));
    await clock.advance(1_000);
    const [, hundred, more] = messagesOf(wire) as [unknown, string[], unknown];
    assert.deepEqual([hundred.length, more], [100, 'all']);
  });

  test('at most one message a second, whatever happens', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const [node, other] = [addNode(), addNode()];
    const wires = [node.open(), other.open()];
    for (let count = 0; count < 200; count += 1) {
      node.hint(changed(`est_${count % 7}`));
      node.settle('est_9');
      other.settle('est_8');
      other.hint({ kind: 'head', tenant: 1, head: count });
      await clock.advance(100);
    }
    for (const wire of wires) {
      const count = messagesOf(wire).length;
      assert.ok(count <= 20 && count >= 15, `${count} messages in 20 s`);
    }
  });

  test('an attempt is reported once its outcome can be read, however long the store takes', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const [node, other] = [addNode(), addNode()];
    const [wire, elsewhere] = [node.open(), other.open()];
    await clock.advance(2_000);
    node.attempt('est_1');
    await clock.advance(60_000);
    assert.deepEqual([wire, elsewhere].map(messagesOf), [['all'], ['all']], 'not recorded yet');
    node.settle('est_1');
    await clock.advance(3_000);
    const reported = ['all', ['est_1']];
    assert.deepEqual([wire, elsewhere].map(messagesOf), [reported, reported]);
    await clock.advance(5_000);
    assert.deepEqual(messagesOf(wire), reported);
  });

  test('a change of the tenant that no hint reports reaches the connections of every node', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const [node, other] = [addNode(), addNode()];
    const [wire, elsewhere] = [node.open(), other.open()];
    await clock.advance(2_000);
    node.watchers.changed(1, undefined);
    await clock.advance(3_000);
    assert.deepEqual([wire, elsewhere].map(messagesOf), [
      ['all', []],
      ['all', []],
    ]);
  });

  test('a published event changes the overview and no stream', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const node = addNode();
    const wire = node.open();
    await clock.advance(1_000);
    node.hint({ kind: 'appended', tenant: 1, events: [] });
    await clock.advance(1_000);
    assert.deepEqual(messagesOf(wire), ['all', []]);
    assert.ok(wire.text.endsWith('data: {"streams":[],"overview":true}\n\n'));
  });

  test('what is read of the whole tenant may be 5 s old: the overview is reported once more, and no stream', async (t) => {
    const { repeatMs } = limits.changes;
    const { clock, addNode } = createWatchFixture(t, { repeatMs });
    const node = addNode();
    const wire = node.open();
    await clock.advance(5_000);
    assert.deepEqual(messagesOf(wire), ['all']);
    await clock.advance(2_500);
    assert.deepEqual(messagesOf(wire), ['all', []]);
    for (const stream of ['est_1', 'est_2']) {
      node.settle(stream);
      await clock.advance(3_000);
    }
    assert.deepEqual(messagesOf(wire), ['all', [], ['est_1'], ['est_2']]);
    await clock.advance(60_000);
    assert.deepEqual(messagesOf(wire), ['all', [], ['est_1'], ['est_2'], []]);
  });

  test('everything may have changed at first, after lost hints, a restore, and an outage of the store', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const node = addNode();
    const wire = node.open();
    assert.equal(wire.text, greeting);
    await clock.advance(1_000);
    assert.deepEqual(messagesOf(wire), ['all']);
    node.hint({ kind: 'missed' });
    await clock.advance(1_000);
    node.hint({ kind: 'replaced' });
    await clock.advance(1_000);
    node.watchers.report({ kind: 'store_recovered' });
    await clock.advance(1_000);
    assert.deepEqual(messagesOf(wire), ['all', 'all', 'all', 'all']);
  });

  test('it receives a heartbeat every 15 s, ends within 5 minutes, and leaves no timer', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const node = addNode();
    const wires = Array.from({ length: 40 }, (_, index) => node.open({ client: `c${index}` }));
    await clock.advance(16_000);
    const [wire] = wires;
    assert.equal(wire?.text.split(heartbeat).length, 2);
    assert.equal(clock.pending, 1, 'one timer for all');
    await clock.advance(252_500);
    assert.ok(wires.every(({ outcome }) => outcome === 'open'));
    await clock.advance(15_000);
    const half = wires.filter(({ outcome }) => outcome === 'ended').length;
    assert.ok(half > 3 && half < 37, `${half} of 40 have ended at half of the spread`);
    await clock.advance(16_000);
    assert.ok(wires.every(({ outcome }) => outcome === 'ended'));
    await clock.advance(1_000);
    assert.deepEqual([node.watchers.open, clock.pending], [0, 0]);
  });

  test('it ends when its token is not valid any more, and not in an outage of the store', async (t) => {
    const { clock, addNode, logged } = createWatchFixture(t);
    const node = addNode();
    const state = { isValid: true };
    const wires = [
      node.open({ client: 'sync', stillValid: () => state.isValid }),
      node.open({ client: 'later', stillValid: async () => state.isValid }),
      node.open({
        client: 'outage',
        stillValid: async () => {
          throw new StoreUnavailable('down');
        },
      }),
      node.open({
        client: 'bug',
        stillValid: async () => {
          throw new Error('a bug');
        },
      }),
    ];
    const outcomes = (): string[] => wires.map(({ outcome }) => outcome);
    await clock.advance(1_000);
    assert.deepEqual(outcomes(), ['open', 'open', 'open', 'ended']);
    assert.deepEqual(logged, ['the token of an open connection could not be checked']);
    state.isValid = false;
    node.hint({ kind: 'client', tenant: 1, client: 'sync' });
    await clock.advance(0);
    assert.deepEqual(outcomes(), ['ended', 'ended', 'open', 'ended']);
  });

  test('limits: the connections of a tenant, and half of them of one client', (t) => {
    const { addNode } = createWatchFixture(t, { connectionsMax: 5 });
    const { watchers, open } = addNode();
    const wires = [open({ client: 'one' }), open({ client: 'one' }), open({ client: 'one' })];
    assert.deepEqual([watchers.isFree(1, 'one'), watchers.reserve(1, 'one')], [false, undefined]);
    const reservation = watchers.reserve(1, 'two');
    open({ client: 'two' });
    assert.equal(watchers.reserve(1, 'three'), undefined);
    assert.equal(watchers.isFree(2, 'one'), true, 'another tenant');
    reservation?.release();
    wires[0]?.events?.gone();
    assert.deepEqual([watchers.isFree(1, 'three'), watchers.open], [true, 3]);
  });

  test('a connection that begins after the end of the service ends at once', (t) => {
    const { addNode } = createWatchFixture(t);
    const { watchers, open } = addNode();
    const wire = open();
    const blocked = new Wire(false, 1);
    open({ wire: blocked });
    const reservation = watchers.reserve(1, 'late');
    watchers.close();
    const late = new Wire();
    reservation?.begin({ token: 'late', stillValid: () => true }, late);
    assert.deepEqual([wire.outcome, blocked.outcome, late.outcome], ['ended', 'cut', 'ended']);
  });
});

describe('changes that other nodes made', () => {
  test('nothing is sent between nodes while nobody watches', async (t) => {
    const { clock, addNode, shared } = createWatchFixture(t);
    const [one, other] = [addNode(), addNode()];
    one.settle('est_1');
    other.settle('est_2');
    await clock.advance(60_000);
    assert.deepEqual([shared, clock.pending], [[], 0]);
  });

  test('the node that watches learns of deliveries of the others, and not for ever', async (t) => {
    const { clock, addNode, shared } = createWatchFixture(t);
    const [one, other] = [addNode(), addNode()];
    const wire = one.open();
    await clock.advance(3_000);
    assert.deepEqual(messagesOf(wire), ['all']);
    other.settle('est_1');
    other.settle('est_2');
    await clock.advance(4_000);
    assert.deepEqual(messagesOf(wire).slice(1), [['est_1', 'est_2']]);
    wire.events?.gone();
    await clock.advance(30_000);
    const before = shared.length;
    other.settle('est_1');
    await clock.advance(30_000);
    assert.deepEqual([shared.length, clock.pending], [before, 0]);
  });

  test('a node that learns late that a tenant is watched says that it may have missed changes', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const one = addNode();
    const wire = one.open();
    await clock.advance(3_000);
    const other = addNode();
    other.settle('est_1');
    await clock.advance(12_000);
    assert.deepEqual(messagesOf(wire), ['all', 'all']);
  });

  test('a node that ends before it reports its last deliveries: the next owner reports their streams', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const [one, other] = [addNode(), addNode()];
    const wire = one.open();
    await clock.advance(3_000);
    other.watchers.report({ kind: 'stream_owned', tenant: 1, stream: 'est_1', cursor: 7 });
    await clock.advance(3_000);
    assert.deepEqual(messagesOf(wire), ['all', ['est_1']]);
  });

  test('a connection that stays open hears of the other node for its whole life', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const [one, other] = [addNode(), addNode()];
    const wire = one.open();
    await clock.advance(200_000);
    other.settle('est_1');
    await clock.advance(4_000);
    assert.deepEqual(messagesOf(wire), ['all', ['est_1']]);
  });

  test('messages between nodes are few and bounded: many streams are all, many tenants take turns', async (t) => {
    const { clock, addNode, shared } = createWatchFixture(t);
    const [one, other] = [addNode(), addNode()];
    const tenants = Array.from({ length: 100 }, (_, index) => index + 1);
    const wires = tenants.map((tenant) => one.open({ tenant }));
    await clock.advance(10_000);
    const texts = wires.map((wire) => messagesOf(wire).length);
    const isNew = shared.length;
    for (const tenant of tenants) {
      for (let count = 0; count < 10; count += 1) other.settle(`est_${count}`, tenant);
    }
    await clock.advance(500);
    await clock.advance(500);
    await clock.advance(6_000);
    const sent = shared.slice(isNew).filter(({ kind }) => kind === 'changed');
    assert.equal(sent.length, 100, 'one for each tenant');
    assert.ok(sent.some((hint) => hint.kind === 'changed' && hint.streams === 'all'));
    assert.ok(wires.every((wire, index) => messagesOf(wire).length > (texts[index] ?? 0)));
  });

  test('more watched tenants than one tick announces: the other node reports its deliveries for each', async (t) => {
    const { clock, addNode } = createWatchFixture(t, { sharedMax: 2 });
    const [one, other] = [addNode(), addNode()];
    const tenants = Array.from({ length: 60 }, (_, index) => index + 1);
    const wires = tenants.map((tenant) => one.open({ tenant }));
    await clock.advance(20_000);
    const before = wires.map((wire) => messagesOf(wire).length);
    for (const tenant of tenants) other.settle('est_1', tenant);
    await clock.advance(20_000);
    const unaware = wires.filter((wire, index) => messagesOf(wire).length === before[index]);
    assert.equal(unaware.length, 0);
  });

  test('where no notifications arrive, everything may have changed every 5 s', async (t) => {
    const { clock, addNode } = createWatchFixture(t);
    const node = addNode({ hears: false });
    const wire = node.open();
    await clock.advance(4_500);
    assert.deepEqual(messagesOf(wire), ['all']);
    await clock.advance(16_500);
    assert.deepEqual(messagesOf(wire), ['all', 'all', 'all', 'all', 'all']);
  });
});

test('random changes, nodes and clients that stop reading: each client is told of all once it reads again', async () => {
  const kinds = [
    'settle',
    'hint',
    'stop',
    'read',
    'join',
    'leave',
    'wait',
    'wait',
    'wait',
  ] as const;
  const act = fc.record({
    kind: fc.constantFrom(...kinds),
    node: fc.nat(2),
    stream: fc.nat(20),
    ms: fc.integer({ min: 1, max: 2_000 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 30, maxLength: 100 }), async (acts) => {
      const ends: (() => void)[] = [];
      const { clock, addNode } = createWatchFixture({ after: (end: () => void) => ends.push(end) });
      const nodes = [addNode(), addNode(), addNode()];
      const wires: Wire[] = [];
      /** The text that each client had when a stream changed. */
      const due: { readonly wire: Wire; readonly stream: string; readonly at: number }[] = [];
      for (const { kind, node: at, stream, ms } of acts) {
        const node = nodes[at] ?? addNode();
        const wire = wires[stream % Math.max(1, wires.length)];
        const id = `est_${stream}`;
        if (kind === 'join')
          wires.push(node.open({ wire: new Wire(true, 1), client: `c${wires.length}` }));
        else if (kind === 'stop' && wire?.outcome === 'open') wire.take(false);
        else if (kind === 'read' && wire?.outcome === 'open') wire.take(true);
        else if (kind === 'leave') wire?.cut();
        else if (kind === 'wait') await clock.advance(ms);
        else if (kind === 'settle' || kind === 'hint') {
          if (kind === 'settle') node.settle(id);
          // A hint of the store reaches every node.
          else for (const each of nodes) each.hint(changed(id));
          for (const open of wires) due.push({ wire: open, stream: id, at: open.text.length });
        }
      }
      // A node whose clients were announced lately may hear of another one's deliveries later.
      for (let count = 0; count < 10; count += 1) {
        for (const wire of wires) if (wire.outcome === 'open') wire.take(true);
        await clock.advance(3_000);
      }
      for (const { wire, stream, at } of due) {
        if (wire.outcome !== 'open') continue;
        const later = wire.text.slice(at);
        assert.ok(later.includes(`"${stream}"`) || later.includes('"all":true'), stream);
      }
      for (const end of ends) end();
    }),
    { numRuns: 500 },
  );
});
