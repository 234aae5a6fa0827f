import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followCertificate } from '../../src/tls/certificate-files.ts';
import { createManualClock } from '../helpers/clock.ts';

const identity = { cert: 'a certificate', key: 'its key' };

test('a look under way ends before the following does, and renews nothing any more', async () => {
  const clock = createManualClock();
  const renewed: unknown[] = [];
  const found = Promise.withResolvers<typeof identity>();
  const abort = new AbortController();
  let ended = false;
  const following = followCertificate(
    {
      identity,
      load: () => found.promise,
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
  assert.equal(ended, false, 'it reads the store');
  found.resolve({ ...identity, cert: 'another' });
  await following;
  assert.deepEqual(renewed, []);
  assert.equal(clock.pending, 0);
});
