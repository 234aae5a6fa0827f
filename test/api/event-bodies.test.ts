import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createEventBodies } from '../../src/api/event-bodies.ts';
import type { SentEvents } from '../../src/api/sent-events.ts';
import { limits } from './fixture.ts';

const own = (value: unknown) =>
  ({ bytes: Buffer.from(JSON.stringify(value)), form: 'own' }) as const;
const use = async (sent: SentEvents) => sent;

function bodiesOn(t: TestContext) {
  const bodies = createEventBodies({
    attributePrefix: 'svc',
    eventBytesMax: limits.eventBytesMax,
  });
  t.after(() => bodies.close());
  return bodies;
}

/** Longer than one event may be. */
const batch = (type: string) =>
  own(Array.from({ length: 20 }, (_, n) => ({ type, data: { n, text: 'x'.repeat(50_000) } })));

describe('bodies of events', () => {
  test('a single event does not wait for batches of any tenant', { tags: ['long'] }, async (t) => {
    const bodies = bodiesOn(t);
    const read: string[] = [];
    const text = `{"type":"a.b","data":{"x":[${Array(250_000).fill('1.0').join(',')}]}}`;
    const batches = [1, 2, 3].map(async (tenant) => {
      const sent = { bytes: Buffer.from(text), form: 'own' } as const;
      await assert.rejects(bodies.read(tenant, sent, use), { status: 413 });
      read.push('batch');
    });
    const event = { type: 'a.b', data: { x: 'x'.repeat(20_000) } };
    const { events } = await bodies.read(4, own(event), use);
    read.push(String(events[0]?.type));
    await Promise.all(batches);
    assert.ok(read.indexOf('a.b') < read.lastIndexOf('batch'), read.join());
  });

  test('a batch keeps the order of its events, for any number and size', async (t) => {
    const bodies = bodiesOn(t);
    const text = 'x'.repeat(300);
    const small = Array.from({ length: 1000 }, (_, n) => ({ type: 'a.b', data: { n, text } }));
    for (const [sent, count] of [
      [batch('a.b'), 20],
      [own(small), 1000],
    ] as const) {
      const { events, isArray } = await bodies.read(1, sent, use);
      assert.equal(isArray, true);
      const numbers = events.map(({ dataJson = '' }) => JSON.parse(dataJson).n);
      assert.deepEqual(numbers, [...Array(count).keys()]);
    }
  });

  test('a tenant has one batch in use at a time, and does not delay batches of others', async (t) => {
    const bodies = bodiesOn(t);
    const first = Promise.withResolvers<void>();
    const used: string[] = [];
    const note = async ({ events }: SentEvents) => void used.push(String(events[0]?.type));
    const held = bodies.read(1, batch('a.first'), async (sent) => {
      await note(sent);
      await first.promise;
    });
    const second = bodies.read(1, batch('a.second'), note);
    await bodies.read(2, batch('b.first'), note);
    await bodies.read(2, batch('b.second'), note);
    await bodies.read(1, own({ type: 'a.small', data: { x: 'x'.repeat(20_000) } }), note);
    assert.deepEqual(used, ['a.first', 'b.first', 'b.second', 'a.small']);
    first.resolve();
    await Promise.all([held, second]);
    assert.equal(used.at(-1), 'a.second');
  });

  test('a batch that fails does not block the next one of its tenant', async (t) => {
    const bodies = bodiesOn(t);
    const failing = bodies.read(1, batch('a.b'), () => Promise.reject(new Error('refused')));
    const bad = bodies.read(1, own({ type: 7, data: { text: 'x'.repeat(300_000) } }), use);
    const good = bodies.read(1, batch('a.c'), use);
    await assert.rejects(failing, /refused/);
    await assert.rejects(bad, { status: 400 });
    assert.equal((await good).events.length, 20);
  });
});
