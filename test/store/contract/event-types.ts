import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventTypesMax, sampleBytesMax } from '../../../src/store/port/event-types.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, type Fixture, newEvent, start } from './fixture.ts';

const everything: Parameters<Fixture['store']['eventTypes']['list']>[1] = {
  after: undefined,
  take: 5_000,
  isSampled: () => true,
};

/** Returns the types of the tenant with the newest event of each. */
async function listed({ store, tenant }: Fixture, query: Partial<typeof everything> = {}) {
  return store.eventTypes.list(tenant, { ...everything, ...query });
}

export function eventTypesContract(engine: Engine): void {
  describe(`${engine.name}: eventTypes`, () => {
    test('record: more types than a tenant may have are left out, and known ones still change', async (t) => {
      const fixture = await createFixture(engine, t);
      const { store, tenant } = fixture;
      const seen = Array.from({ length: eventTypesMax + 300 }, (_, index) => ({
        tenant,
        type: `a.t${String(index).padStart(5, '0')}`,
        offset: index + 1,
        at: start,
      }));
      for (let from = 0; from < seen.length; from += 100) {
        await store.eventTypes.record(seen.slice(from, from + 100));
      }
      await store.eventTypes.record(seen.slice(0, 1).map((row) => ({ ...row, offset: 9, at: 7 })));
      const types = await listed(fixture);
      assert.equal(types.length, eventTypesMax);
      assert.deepEqual(types[0], { type: 'a.t00000', at: 7, body: undefined });
    });

    test('record: the newest event of a type stays, whoever writes last, and unknown tenants are left out', async (t) => {
      const fixture = await createFixture(engine, t);
      const { store, tenant } = fixture;
      const other = await addTenant(store, 'other');
      const row = { tenant, type: 'a.made', offset: 5, at: start + 5 };
      await store.eventTypes.record([row, { ...row, tenant: other.id, at: 1 }]);
      await store.eventTypes.record([
        { ...row, offset: 4, at: start },
        { ...row, tenant: 99 },
      ]);
      assert.deepEqual(await listed(fixture), [{ type: 'a.made', at: row.at, body: undefined }]);
      assert.deepEqual(await store.eventTypes.list(99, everything), []);
    });

    test('list: has the types of the newest events before they are recorded, in their order, by pages', async (t) => {
      const fixture = await createFixture(engine, t);
      const { store, tenant } = fixture;
      await fixture.publish('user.created', 'order.paid', 'b.made', 'order.paid', 'a_b.made');
      await store.eventTypes.record([
        { tenant, type: 'order.paid', offset: 2, at: 1 },
        { tenant, type: 'zoo.opened', offset: 1, at: 1 },
      ]);
      const all = await listed(fixture);
      assert.deepEqual(
        all.map(({ type }) => type),
        ['a_b.made', 'b.made', 'order.paid', 'user.created', 'zoo.opened'],
      );
      const { events } = await store.eventLog.newest(tenant, {
        before: 6,
        after: 3,
        take: 10,
        bytesMax: 100_000,
      });
      const newest = events.find(({ type }) => type === 'order.paid');
      assert.deepEqual(all[2], {
        type: 'order.paid',
        at: newest?.publishedAt,
        body: newest?.body,
      });
      const page = await listed(fixture, { after: 'b.made', take: 2 });
      assert.deepEqual(page, all.slice(2, 4));
      const unsampled = await listed(fixture, { isSampled: () => false });
      assert.ok(unsampled.every(({ body }) => body === undefined));
    });

    test('list: a body that is too large is left out', async (t) => {
      const fixture = await createFixture(engine, t);
      const { store, tenant } = fixture;
      const bodyOf = (bytes: number): string => `"${'ü'.repeat((bytes - 2) / 2)}"`;
      await store.log.append(tenant, [
        { ...newEvent({ type: 'a.large' }), body: bodyOf(sampleBytesMax + 2) },
        { ...newEvent({ type: 'b.fits' }), body: bodyOf(sampleBytesMax) },
      ]);
      const bodies = (await listed(fixture)).map(({ body }) => body?.length);
      assert.deepEqual(bodies, [undefined, sampleBytesMax / 2 + 1]);
    });

    test('prune: a type whose events have all left the log goes', async (t) => {
      const fixture = await createFixture(engine, t);
      const { store, tenant } = fixture;
      const [first, second] = await fixture.publish('a.old', 'b.new');
      await store.eventTypes.record([
        { tenant, type: 'a.old', offset: first?.offset ?? 0, at: start },
        { tenant, type: 'b.new', offset: second?.offset ?? 0, at: start },
      ]);
      await store.log.prune(tenant, { olderThanMs: -1, take: 1 });
      await store.eventLog.prune(tenant, 100);
      const types = (await listed(fixture)).map(({ type }) => type);
      assert.deepEqual(types, ['b.new']);
    });
  });
}
