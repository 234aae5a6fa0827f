import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEndpointHosts } from '../../src/api/endpoint-hosts.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import { addTenant, createFixture, fixtureOf } from '../store/contract/fixture.ts';
import { sqliteMemory } from '../store/engines.ts';

test('EndpointHosts: beyond the bound every stream still has its host, also of requests at the same time', async (t) => {
  const fixture = await createFixture(sqliteMemory, t);
  const { store, tenant } = fixture;
  for (let n = 0; n < 6; n += 1) await fixture.addStream();
  const { streams } = await store.streams.states(tenant, { lagsOf: 'all' });
  const hosts = createEndpointHosts(store, 3);
  const hostsOf = (from: number, to: number) => hosts.of(tenant, streams.slice(from, to));
  const expected = (count: number) => Array<string>(count).fill('hooks.example.net');
  assert.deepEqual(await hostsOf(0, 2), expected(2));
  assert.deepEqual(await hostsOf(0, 4), expected(4), 'two of them were known');
  const parallel = [hostsOf(0, 3), hostsOf(2, 6), hostsOf(1, 4), hostsOf(0, 6)];
  assert.deepEqual(await Promise.all(parallel), [3, 4, 3, 6].map(expected));
});

test('EndpointHosts: a tenant whose hosts become more counts with all of them', async (t) => {
  const fixture = await createFixture(sqliteMemory, t);
  const { store, tenant } = fixture;
  const other = (await addTenant(store, 'other')).id;
  for (let n = 0; n < 3; n += 1) await fixture.addStream();
  await fixtureOf(store, other).addStream();
  const read: string[][] = [];
  const streams: Store['streams'] = {
    ...store.streams,
    endpointHosts: (of, ids) => {
      read.push([...ids]);
      return store.streams.endpointHosts(of, ids);
    },
  };
  const hosts = createEndpointHosts({ ...store, streams }, 3);
  const [some, others] = await Promise.all(
    [tenant, other].map((each) => store.streams.states(each, { lagsOf: 'none' })),
  );
  assert.ok(some !== undefined && others !== undefined);
  await hosts.of(tenant, some.streams.slice(0, 1));
  await hosts.of(tenant, some.streams);
  await hosts.of(other, others.streams);
  read.length = 0;
  await hosts.of(other, others.streams);
  assert.deepEqual(read, [], 'the last ones are kept');
  await hosts.of(tenant, some.streams);
  assert.deepEqual(read, [some.streams.map(({ id }) => id)], 'all of the first ones were dropped');
});

for (const kind of ['replaced', 'missed'] as const) {
  test(`EndpointHosts: a version that returns in a store that lost changes has its new host, after ${kind}`, async (t) => {
    const { store, tenant, addStream } = await createFixture(sqliteMemory, t);
    const { id } = await addStream();
    const { streams: before } = await store.streams.states(tenant, { lagsOf: 'none' });
    let host = 'lost.example.net';
    const begun = Promise.withResolvers<void>();
    let answer = Promise.resolve();
    const streams: Store['streams'] = {
      ...store.streams,
      endpointHosts: async () => {
        const found = new Map([[id, host]]);
        begun.resolve();
        await answer;
        return found;
      },
    };
    const listeners: ((hint: Hint) => void)[] = [];
    const watch: Store['watch'] = (listener) => {
      listeners.push(listener);
      return () => undefined;
    };
    const hosts = createEndpointHosts({ streams, watch }, 3);
    assert.deepEqual(await hosts.of(tenant, before), [host]);
    for (const listener of listeners) listener({ kind });
    const late = Promise.withResolvers<void>();
    answer = late.promise;
    const reading = hosts.of(tenant, before);
    await begun.promise;
    for (const listener of listeners) listener({ kind });
    late.resolve();
    await reading;
    host = 'new.example.net';
    assert.deepEqual(await hosts.of(tenant, before), [host]);
  });
}
