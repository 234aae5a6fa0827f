import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTtlCache } from '../../src/auth/ttl-cache.ts';
import { createVerifiedTokens } from '../../src/auth/verified-tokens.ts';
import { handClock } from './fixture.ts';

describe('a memory', () => {
  test('never holds more entries than it may', () => {
    const memory = createVerifiedTokens<number>(100);
    let most = 0;
    for (let number = 0; number < 10_000; number += 1) {
      memory.set(`key ${number}`, number);
      most = Math.max(most, memory.size);
    }
    assert.ok(most <= 100, `${most} entries`);
    assert.equal(memory.get('key 9999'), 9999);
    assert.equal(memory.get('key 0'), undefined);
  });

  test('keeps what is used while strangers come and go', () => {
    const memory = createVerifiedTokens<string>(100);
    memory.set('kept', 'value');
    for (let number = 0; number < 1_000; number += 1) {
      memory.set(`key ${number}`, 'x');
      assert.equal(memory.get('kept'), 'value');
    }
    assert.ok(memory.size <= 100);
  });

  test('forgets what is deleted, wherever it is held', () => {
    const memory = createVerifiedTokens<string>(4);
    for (const key of ['a', 'b', 'c']) memory.set(key, key);
    for (const key of ['a', 'b', 'c']) memory.delete(key);
    assert.deepEqual([memory.get('a'), memory.get('c'), memory.size], [undefined, undefined, 0]);
  });

  test('holds the newest value of a key once', () => {
    const memory = createVerifiedTokens<number>(4);
    for (let number = 0; number < 20; number += 1) memory.set('a', number);
    assert.deepEqual([memory.get('a'), memory.size], [19, 1]);
  });
});

describe('a fresh value', () => {
  const clock = handClock();
  const freshOf = (): ReturnType<typeof createTtlCache<string>> =>
    createTtlCache<string>({ clock, freshMs: 1_000, entriesMax: 10 });
  const read = (value: string) => (): Promise<string> => Promise.resolve(value);

  test('is answered without a promise until it is too old', async () => {
    const fresh = freshOf();
    assert.equal(await fresh.get('key', read('one')), 'one');
    clock.move(999);
    assert.equal(fresh.get('key', read('two')), 'one');
    clock.move(1);
    const aged = fresh.get('key', read('two'));
    assert.ok(aged instanceof Promise);
    assert.equal(await aged, 'two');
  });

  test('ends when it is expired, and the next read sees the former one', async () => {
    const fresh = freshOf();
    await fresh.get('key', read('one'));
    fresh.expire('key');
    const seen = fresh.get('key', (former) => Promise.resolve(`after ${former}`));
    assert.equal(await seen, 'after one');
  });

  test('that expires while it is read is not kept', async () => {
    const fresh = freshOf();
    const reading = Promise.withResolvers<string>();
    const first = fresh.get('key', () => reading.promise);
    fresh.expire('key');
    const second = fresh.get('key', read('new'));
    reading.resolve('old');
    assert.deepEqual([await first, await second], ['old', 'new']);
    assert.equal(fresh.get('key', read('unread')), 'new');
  });

  test('that cannot be read is asked for anew', async () => {
    const fresh = freshOf();
    const failing = fresh.get('key', () => Promise.reject(new Error('broken')));
    await assert.rejects(Promise.resolve(failing), /broken/);
    assert.equal(await fresh.get('key', read('mended')), 'mended');
  });
});
