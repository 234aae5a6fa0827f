import assert from 'node:assert/strict';
import { test } from 'node:test';
import { watchCertificate } from '../../src/tls/certificate-files.ts';
import { createManualClock } from '../helpers/clock.ts';

const identity = { cert: 'a certificate', key: 'its key' };

test('watchCertificate: after an abort ends with the read in progress, and renews nothing', async () => {
  const clock = createManualClock();
  const renewed: unknown[] = [];
  const loaded = Promise.withResolvers<typeof identity>();
  const abort = new AbortController();
  let ended = false;
  const watching = watchCertificate(
    {
      identity,
      load: () => loaded.promise,
      renew: (other) => renewed.push(other),
      report: (error) => assert.fail(String(error)),
      clock,
      everyMs: 60_000,
    },
    abort.signal,
  ).finally(() => {
    ended = true;
  });

  await clock.advance(60_000);
  abort.abort();
  await clock.advance(60_000);
  assert.equal(ended, false, 'the read is in progress');
  loaded.resolve({ ...identity, cert: 'another' });
  await watching;
  assert.deepEqual(renewed, []);
  assert.equal(clock.pending, 0);
});
