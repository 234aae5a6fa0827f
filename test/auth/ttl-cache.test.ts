import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTtlCache } from '../../src/auth/ttl-cache.ts';
import { createManualClock } from '../helpers/clock.ts';

describe('TTL cache', () => {
  const clock = createManualClock();
  const emptyCache = (): ReturnType<typeof createTtlCache<string>> =>
    createTtlCache<string>({ clock, freshMs: 1_000, entriesMax: 10 });
  const read = (value: string) => (): Promise<string> => Promise.resolve(value);

  test('TTL cache returns a value without a promise until it is too old', async () => {
    const cache = emptyCache();
    assert.equal(await cache.get('key', read('one')), 'one');
    clock.move(999);
    assert.equal(cache.get('key', read('two')), 'one');
    clock.move(1);
    const aged = cache.get('key', read('two'));
    assert.ok(aged instanceof Promise);
    assert.equal(await aged, 'two');
  });

  test('TTL cache reads an expired value again, and passes the former one to the read', async () => {
    const cache = emptyCache();
    await cache.get('key', read('one'));
    cache.expire('key');
    const seen = cache.get('key', (former) => Promise.resolve(`after ${former}`));
    assert.equal(await seen, 'after one');
  });

  test('TTL cache does not cache a value that expires while it is read', async () => {
    const cache = emptyCache();
    const reading = Promise.withResolvers<string>();
    const first = cache.get('key', () => reading.promise);
    cache.expire('key');
    const second = cache.get('key', read('new'));
    reading.resolve('old');
    assert.deepEqual([await first, await second], ['old', 'new']);
    assert.equal(cache.get('key', read('unread')), 'new');
  });

  test('TTL cache shares one read between concurrent callers of a key', async () => {
    const cache = emptyCache();
    let reads = 0;
    const slow = async (): Promise<string> => `read ${(reads += 1)}`;
    assert.deepEqual(await Promise.all([cache.get('key', slow), cache.get('key', slow)]), [
      'read 1',
      'read 1',
    ]);
  });

  test('caches nothing after a failed read: the next call reads again', async () => {
    const cache = emptyCache();
    const failing = cache.get('key', () => Promise.reject(new Error('broken')));
    await assert.rejects(Promise.resolve(failing), /broken/);
    assert.equal(await cache.get('key', read('fixed')), 'fixed');
  });

  test('TTL cache drops the least recently used value beyond its limit', async () => {
    const cache = emptyCache();
    for (let index = 0; index < 100; index += 1) {
      await cache.get(`key ${index}`, read('cached'));
      assert.equal(await cache.get('used', read('cached')), 'cached');
    }
    assert.equal(cache.get('used', read('read again')), 'cached');
    assert.equal(cache.get('key 99', read('read again')), 'cached');
    assert.equal(await cache.get('key 0', read('read again')), 'read again');
  });
});
