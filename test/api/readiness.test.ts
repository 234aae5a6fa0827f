import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createReadiness } from '../../src/api/readiness.ts';
import { createManualClock } from '../helpers/clock.ts';
import { openMemoryCopy } from '../helpers/sqlite.ts';

test('readiness: an obstacle counts from the probe after it comes or goes, within the second of a check too', async (t) => {
  const clock = createManualClock();
  const random = (count: number): Uint8Array => randomBytes(count);
  const store = await openMemoryCopy({ secretKeys: [randomBytes(32)], random, clock });
  t.after(() => store.close());
  let obstacle: string | undefined = 'The node has no lease.';
  const readiness = createReadiness({ store, clock, obstacle: () => obstacle });

  const notReady = { isReady: false, reason: 'The node has no lease.' };
  assert.deepEqual(await readiness.check(), notReady);
  obstacle = undefined;
  assert.deepEqual(await readiness.check(), { isReady: true, nodes: [] });
  obstacle = 'The node has no lease.';
  assert.deepEqual(await readiness.check(), notReady);
});

test('readiness: an obstacle that comes while the store is asked counts', async (t) => {
  const clock = createManualClock();
  const random = (count: number): Uint8Array => randomBytes(count);
  const store = await openMemoryCopy({ secretKeys: [randomBytes(32)], random, clock });
  t.after(() => store.close());
  let obstacle: string | undefined;
  const readiness = createReadiness({ store, clock, obstacle: () => obstacle });

  const checked = readiness.check();
  obstacle = 'The node has no lease.';
  assert.deepEqual(await checked, { isReady: false, reason: 'The node has no lease.' });
});
