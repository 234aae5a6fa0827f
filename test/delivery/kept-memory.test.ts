import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ownBytes } from '../../src/core/own-bytes.ts';
import { keys32 } from '../../src/core/value.ts';
import { requestTemplateOf, prepareRequest } from '../../src/delivery/request.ts';
import { pageOf } from '../../src/pull/page.ts';
import { hashOf } from '../../src/api/console-cookie.ts';
import { waitFor } from '../helpers/wait.ts';
import { newEvent, newStream } from '../store/contract/fixture.ts';
import { secret, settings } from './fixture.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function template(offset: number) {
  const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
  const stream = { ...newStream(1, offset, { signingSecrets }), subscriptions: [], version: 1 };
  return requestTemplateOf(stream, settings);
}

/** Uses up the block of memory that small buffers share. */
function useUpBlock(): void {
  for (let bytes = 0; bytes < Buffer.poolSize; bytes += 1000) Buffer.from('x'.repeat(1000));
}

function arrayBuffers(): number {
  collect();
  return process.memoryUsage().arrayBuffers;
}

describe('memory that is kept', () => {
  test('400 streams that have sent keep less than 1 KiB of buffers each', async () => {
    const before = arrayBuffers();
    const kept = Array.from({ length: 400 }, (_, offset) => {
      const made = template(offset);
      prepareRequest(made, newEvent(), 0);
      useUpBlock();
      return made;
    });
    // Memory of buffers is freed on another thread.
    await waitFor('the other buffers to be freed', () => {
      return (arrayBuffers() - before) / kept.length < 1024;
    });
    assert.equal(kept.length, 400);
  });

  test('what is kept shares its memory with nothing', () => {
    const event = { ...newEvent(), offset: 1 };
    const page = pageOf({ events: [event], scannedTo: 1 } as unknown as Parameters<
      typeof pageOf
    >[0]);
    const parsed = keys32(Buffer.alloc(32, 7).toString('base64'));
    assert.ok('value' in parsed);
    const kept = {
      'signing key': template(0).keys.map(({ key }) => key),
      'page of the log': [page.bytes],
      'key of the store': parsed.value,
      'hash of a session': [hashOf(Buffer.from('secret'))],
      copy: [ownBytes(Buffer.from('abc'))],
    };
    for (const [name, all] of Object.entries(kept)) {
      assert.ok(all.length > 0, name);
      for (const bytes of all) assert.equal(bytes.buffer.byteLength, bytes.byteLength, name);
    }
  });
});
