import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import type { RemovalQuery } from '../../src/store/port/tenants.ts';
import { removeTenant } from '../../src/upkeep/tenant-removal.ts';
import { sharedPostgres, throughPort } from '../helpers/postgres.ts';
import { startTcpProxy } from '../helpers/tcp-proxy.ts';
import { addTenant, newEvent } from './contract/fixture.ts';
import { newDatabase, openUrl } from './engines.ts';

test(
  'removal: the time of a step on PostgreSQL is that of the server without the way to it',
  { tags: ['long'] },
  async (t) => {
    const server = await sharedPostgres();
    const direct = await newDatabase();
    const proxy = await startTcpProxy(server.port);
    const store = await openUrl(throughPort(direct, proxy.port));
    t.after(async () => {
      await store.close();
      await proxy.close();
      await server.dropDatabase(direct);
    });
    const { id } = await addTenant(store, 'leaving');
    const kept = await addTenant(store, 'kept');
    const events = Array.from({ length: 3000 }, () => newEvent());
    await store.log.append(id, events);
    await store.log.append(kept.id, events.slice(0, 5));
    await store.tenants.leave(id);
    const wayMs = 20;
    let steps = 0;
    proxy.delayMs = wayMs;
    const far = {
      tenants: {
        ...store.tenants,
        removeStep: async (tenant: number, query: RemovalQuery) => {
          const startedMs = performance.now();
          const step = await store.tenants.removeStep(tenant, query);
          const tookMs = performance.now() - startedMs;
          // The last one only ends it.
          if (step.removed > 0 && !step.isDone && query.from !== undefined) {
            assert.ok((step.tookMs ?? Infinity) <= tookMs - 2 * wayMs, JSON.stringify(step));
            steps += 1;
          }
          return step;
        },
      },
    };
    const end = new AbortController();
    const removed = await removeTenant(
      { store: far, clock: systemClock },
      id,
      () => {},
      end.signal,
    );
    assert.ok(removed >= events.length);
    assert.ok(steps > 0);
    assert.equal(await store.log.head(kept.id), 5);
    const page = await store.log.page(kept.id, { after: 0, take: 10, bytesMax: 1e6 });
    assert.equal(page.events.length, 5);
  },
);
