import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEndpointHosts } from '../../src/api/endpoint-hosts.ts';
import { createFixture } from '../store/contract/fixture.ts';
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
