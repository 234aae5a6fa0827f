import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withSelection } from '../../../src/core/subscription.ts';
import type { Stream } from '../../../src/core/types.ts';
import { createFixture, type Fixture } from '../contract/fixture.ts';
import { sqliteMemory } from '../engines.ts';

/** Types other than that of the event, of at least so many bytes together. */
function otherTypes(bytes: number): string[] {
  return Array.from({ length: Math.ceil(bytes / 50) }, (_, n) => `${'x'.repeat(50)}.type${n}`);
}

/** Counts how often other work has a turn while what became of an event is read. */
async function turnsOfReading(fixture: Fixture, eventId: string): Promise<number> {
  const event = await fixture.store.eventLog.find(fixture.tenant, eventId);
  assert.ok(event);
  let turns = 0;
  let isRead = false;
  const count = (): void => {
    turns += 1;
    if (!isRead) setImmediate(count);
  };
  setImmediate(count);
  await fixture.store.eventLog.deliveries(fixture.tenant, event, { after: undefined, take: 10 });
  isRead = true;
  return turns;
}

test('SQLite: what became of an event: other work runs while long past selections are searched', async (t) => {
  const fixture = await createFixture(sqliteMemory, t);
  const stream = await fixture.addStream();
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  const change = (changed: Partial<Stream>, types?: string[]) =>
    fixture.store.streams.update(
      fixture.tenant,
      stream.id,
      ({ subscriptions, ...before }, { head }) => ({
        after: {
          ...before,
          ...changed,
          subscriptions: types ? withSelection(subscriptions, { types }, head) : subscriptions,
        },
        resume: 'latest',
      }),
    );
  const types = otherTypes(100_000);
  for (let index = 0; index < 60; index += 1) {
    await change({ status: 'disabled' }, [...types, `type.of.change${index}`]);
    await fixture.publish('user.created');
    // It passes its selections.
    await change({ status: 'enabled' });
  }
  const turns = await turnsOfReading(fixture, event.id);
  assert.ok(turns >= 10, `${turns} turns for 6 MB`);
});

test('SQLite: what became of an event: other work runs while long subscriptions are searched', async (t) => {
  const fixture = await createFixture(sqliteMemory, t);
  const types = otherTypes(5000);
  for (let count = 0; count < 500; count += 1) await fixture.addStream({ types });
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  await turnsOfReading(fixture, event.id);
  const turns = await turnsOfReading(fixture, event.id);
  assert.ok(turns >= 5, `${turns} turns for 500 streams`);
});
