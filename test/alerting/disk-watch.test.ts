import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import type { SystemAlert } from '../../src/alerting/alert.ts';
import { watchDisk } from '../../src/alerting/disk-watch.ts';
import { StoreUnavailable, type UnavailableReason } from '../../src/core/errors.ts';
import { hourMs, minuteMs } from '../../src/core/units.ts';
import { createManualClock } from '../helpers/clock.ts';
import { openMemoryCopy } from '../helpers/sqlite.ts';
import { addTenant } from '../store/contract/fixture.ts';

test('watchDisk: a full disk is one alert an hour, and the first one is tried again until it is sent', async (t) => {
  const store = await openMemoryCopy({
    secretKeys: [new Uint8Array(32)],
    random: randomBytes,
    clock: systemClock,
  });
  t.after(store.close);
  const tenant = await addTenant(store, 'main');
  const clock = createManualClock();
  const ending = new AbortController();
  const sent: SystemAlert[] = [];
  let reason: UnavailableReason | undefined = 'away';
  let isTaken = false;
  let isDispatcherFull = false;
  const watching = watchDisk(
    {
      store: {
        tenants: store.tenants,
        failure: () => (reason === undefined ? undefined : new StoreUnavailable('no', { reason })),
      },
      isFull: () => isDispatcherFull,
      node: 'node-1',
      clock,
      send: async (alert, { domain }) => {
        assert.equal(domain, tenant.domain);
        sent.push(alert);
        return isTaken;
      },
    },
    ending.signal,
  );
  const advance = async (ms: number): Promise<number> => {
    await clock.advance(ms);
    return sent.length;
  };
  assert.equal(await advance(minuteMs), 0);
  reason = 'full';
  assert.equal(await advance(minuteMs - 1000), 1);
  isTaken = true;
  assert.equal(await advance(hourMs - minuteMs), 2);
  reason = undefined;
  isDispatcherFull = true;
  assert.equal(await advance(2 * minuteMs), 3);
  assert.deepEqual(
    sent.map(({ kind, tenant: name, fields }) => [kind, name, fields]),
    sent.map(() => ['disk_full', 'main', { node: 'node-1' }]),
  );
  ending.abort();
  await clock.advance(1000);
  await watching;
});
