import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEventBodies } from '../../src/api/event-bodies.ts';
import { limits } from './site.ts';

test('a single event does not wait for batches, of whoever they are', async (t) => {
  const bodies = createEventBodies({
    attributePrefix: 'svc',
    eventBytesMax: limits.eventBytesMax,
  });
  t.after(() => bodies.close());
  const read: string[] = [];
  const batch = `{"type":"a.b","data":{"x":[${Array(250_000).fill('1.0').join(',')}]}}`;
  const batches = [1, 2, 3].map(async (tenant) => {
    await assert.rejects(bodies.read(tenant, Buffer.from(batch), 'own'), { status: 413 });
    read.push('batch');
  });
  const event = { type: 'a.b', data: { x: 'x'.repeat(20_000) } };
  const { events } = await bodies.read(4, Buffer.from(JSON.stringify(event)), 'own');
  read.push(String(events[0]?.type));
  await Promise.all(batches);
  assert.ok(read.indexOf('a.b') < read.lastIndexOf('batch'), read.join());
});
