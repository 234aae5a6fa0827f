import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createPruner } from '../../src/ops/prune.ts';
import { systemClock } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { createManualClock } from '../helpers/clock.ts';
import { addTenant, newEvent, newStream } from '../store/contract/scene.ts';

const settings = { eventRetentionMs: 1000, attemptRetentionMs: 1000, everyMs: 60_000, take: 10 };

test('a look removes what is older than its retention, in small commands, and nothing else', async (t) => {
  const store = await openStore({
    location: { engine: 'sqlite', path: ':memory:' },
    secretKey: new Uint8Array(32),
    random: randomBytes,
    clock: systemClock,
  });
  t.after(store.close);
  const { id: tenant } = await addTenant(store, 'main');
  const clock = createManualClock();
  const old = Array.from({ length: 35 }, () => newEvent());
  await store.log.append(tenant, old, clock.now() - 5000);
  await store.log.append(tenant, [newEvent({ id: 'evt_kept' })], clock.now());
  const stream = newStream(tenant, clock.now());
  await store.streams.create(stream, { streamsMax: 1 });
  for (const [id, ago] of [['rpl_old', 5000] as const, ['rpl_kept', 0] as const]) {
    const asked = { tenant, stream: stream.id, id, from: 0, to: 0, types: undefined };
    await store.replays.create(asked, clock.now() - ago);
  }
  const end = new AbortController();
  const errors: unknown[] = [];
  const ended = createPruner({
    store,
    clock,
    settings,
    report: (error) => errors.push(error),
  }).run(end.signal);

  // Four commands of at most ten, a pause of a millisecond between them.
  for (let pause = 0; pause < 10; pause += 1) await clock.advance(1);
  const { events } = await store.log.page(tenant, { after: 0, take: 100, bytesMax: 1_000_000 });
  end.abort();
  await ended;
  assert.deepEqual(
    events.map(({ id }) => id),
    ['evt_kept'],
  );
  assert.equal(await store.replays.get(tenant, stream.id, 'rpl_old'), undefined);
  assert.equal((await store.replays.get(tenant, stream.id, 'rpl_kept'))?.status, 'done');
  assert.deepEqual(errors, []);
});
