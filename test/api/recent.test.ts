import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Recent } from '../../src/api/recent.ts';
import { createManualClock } from '../helpers/clock.ts';

function setup(weightMax = 100, watchedMs = 0, watchedMax = Infinity) {
  const clock = createManualClock();
  const closing = new AbortController();
  const recent = new Recent<number>({
    clock,
    closing: closing.signal,
    keptMs: 5000,
    watchedMs,
    watchedMax,
    weightMax,
    weightOf: (value) => value,
  });
  let loads = 0;
  const load = (value: number) => async () => {
    loads += 1;
    return value;
  };
  const close = () => closing.abort();
  return { clock, recent, load, loads: () => loads, close };
}

test('Recent: an error of a load reaches all that wait, and the next request loads again', async () => {
  const { recent, load, loads } = setup();
  const broken = Promise.withResolvers<number>();
  const both = [recent.get('a', () => broken.promise), recent.get('a', load(1))];
  broken.reject(new Error('no store'));
  for (const one of await Promise.allSettled(both)) assert.equal(one.status, 'rejected');
  assert.equal(await recent.get('a', load(2)), 2);
  assert.equal(loads(), 1);
});

test('Recent: requests at the same time share a load, however long it takes', async () => {
  const { clock, recent, load, loads } = setup();
  const slow = Promise.withResolvers<number>();
  const first = recent.get('a', () => slow.promise);
  await clock.advance(60_000);
  const second = recent.get('a', load(2));
  slow.resolve(1);
  assert.deepEqual(await Promise.all([first, second]), [1, 1]);
  assert.equal(loads(), 0);
  assert.equal(await recent.get('a', load(3)), 3, 'it was too old when it arrived');
});

test('Recent: a value with another mark is not returned, nor does its load replace a newer one', async () => {
  const { clock, recent, load, loads } = setup();
  const slow = Promise.withResolvers<number>();
  const early = recent.get('a', () => slow.promise, false, 'before');
  assert.equal(await recent.get('a', load(2), false, 'after'), 2);
  slow.resolve(1);
  assert.equal(await early, 1);
  assert.equal(await recent.get('a', load(3), false, 'after'), 2);
  assert.equal(loads(), 1);
  // The next one, which a request loads without waiting, comes after a change.
  await clock.advance(3000);
  const next = Promise.withResolvers<number>();
  assert.equal(await recent.get('a', () => next.promise, false, 'after'), 2);
  assert.equal(await recent.get('a', load(4), false, 'third'), 4);
  next.resolve(3);
  await clock.advance(0);
  assert.equal(await recent.get('a', load(5), false, 'third'), 4);
  await clock.advance(5000);
  assert.equal(clock.pending, 0);
});

test('Recent: a value is kept for its time from the request on, and by key', async () => {
  const { clock, recent, load } = setup();
  assert.equal(await recent.get('a', load(1)), 1);
  await clock.advance(2499);
  assert.equal(await recent.get('a', load(2)), 1);
  assert.equal(await recent.get('b', load(3)), 3);
  await clock.advance(2501);
  assert.equal(await recent.get('a', load(4)), 4);
  assert.equal(await recent.get('b', load(5)), 3);
});

test('Recent: a request for an older value loads the next one once, and does not wait for it', async () => {
  const { clock, recent, load, loads } = setup();
  assert.equal(await recent.get('a', load(1)), 1);
  await clock.advance(2500);
  const next = Promise.withResolvers<number>();
  assert.equal(await recent.get('a', () => next.promise), 1);
  assert.equal(await recent.get('a', load(2)), 1);
  assert.equal(loads(), 1, 'one load at a time');
  next.resolve(3);
  await clock.advance(0);
  assert.equal(await recent.get('a', load(4)), 3);
  await clock.advance(2499);
  assert.equal(await recent.get('a', load(5)), 3, 'it is as new as its request');
});

test('Recent: after an error of the next value the present one stays for its time, and is loaded again', async () => {
  const { clock, recent, load } = setup();
  assert.equal(await recent.get('a', load(1)), 1);
  await clock.advance(2500);
  assert.equal(await recent.get('a', () => Promise.reject(new Error('no store'))), 1);
  await clock.advance(0);
  assert.equal(await recent.get('a', load(2)), 1);
  await clock.advance(0);
  assert.equal(await recent.get('a', load(3)), 2);
});

test('Recent: requests after the time of a value wait for the next one that is being loaded, one load at a time', async () => {
  const { clock, recent, load, loads } = setup();
  assert.equal(await recent.get('a', load(1)), 1);
  await clock.advance(2500);
  const slow = Promise.withResolvers<number>();
  assert.equal(await recent.get('a', () => slow.promise), 1);
  await clock.advance(2500);
  const waiting = [recent.get('a', load(2)), recent.get('a', load(2))];
  slow.resolve(3);
  assert.deepEqual(await Promise.all(waiting), [3, 3]);
  assert.equal(loads(), 1);
  await clock.advance(2499);
  assert.equal(await recent.get('a', load(4)), 3);
  await clock.advance(1);
  assert.equal(await recent.get('a', load(5)), 4, 'it is as old as its request');
});

test('Recent: an error of the next value reaches those that wait for it, and is not kept', async () => {
  const { clock, recent, load } = setup();
  assert.equal(await recent.get('a', load(1)), 1);
  await clock.advance(2500);
  const broken = Promise.withResolvers<number>();
  assert.equal(await recent.get('a', () => broken.promise), 1);
  await clock.advance(2500);
  const waiting = assert.rejects(recent.get('a', load(2)), /no store/);
  broken.reject(new Error('no store'));
  await waiting;
  assert.equal(await recent.get('a', load(3)), 3);
});

test('Recent: requests share the load of the next value also after the one before was dropped for its weight', async () => {
  const { clock, recent, load, loads } = setup(10);
  assert.equal(await recent.get('a', load(1)), 1);
  await clock.advance(2500);
  const slow = Promise.withResolvers<number>();
  assert.equal(await recent.get('a', () => slow.promise), 1);
  await recent.get('b', load(10));
  const waiting = [recent.get('a', load(2)), recent.get('a', load(2))];
  assert.equal(loads(), 2, 'one load of a key at a time');
  slow.resolve(3);
  assert.deepEqual(await Promise.all(waiting), [3, 3]);
  assert.equal(await recent.get('a', load(4)), 3);
});

test('Recent: a value that is dropped or replaced is not held until its time', async () => {
  const { clock, recent, load } = setup(10);
  for (let n = 0; n < 20; n += 1) await recent.get(`tenant-${n}`, load(10));
  assert.equal(clock.pending, 1);
  await clock.advance(2500);
  await recent.get('tenant-19', load(9));
  await clock.advance(0);
  assert.equal(clock.pending, 1);
  await clock.advance(5000);
  assert.equal(clock.pending, 0);
});

test('Recent: for some time after the last request the value is loaded again, so that no request waits', async () => {
  const { clock, recent, loads } = setup(100, 12_000);
  let loaded = 0;
  const load = async () => (loaded += 1);
  assert.equal(await recent.get('a', load), 1);
  await clock.advance(3999);
  assert.equal(loaded, 1);
  await clock.advance(1);
  assert.equal(loaded, 2);
  assert.equal(await recent.get('a', load), 2);
  for (let n = 0; n < 4; n += 1) await clock.advance(4000);
  assert.equal(loaded, 4, 'at 4, 8 and 12 s, and 16 s is the end of what is watched');
  await clock.advance(5000);
  assert.equal(clock.pending, 0);
  assert.equal(await recent.get('a', load), 5);
  assert.equal(loads(), 0);
});

test('Recent: a load that holds the event loop at its begin is part of the age of its value', async () => {
  const { clock, recent, load } = setup();
  const slow = () => {
    clock.move(3000);
    return Promise.resolve(1);
  };
  assert.equal(await recent.get('a', slow), 1);
  await clock.advance(2500);
  assert.equal(await recent.get('a', load(2)), 2, 'the first was requested 5.5 s ago');
});

test('Recent: only the keys of the last requests are loaded again', async () => {
  const { clock, recent } = setup(100, 60_000, 2);
  const loaded: string[] = [];
  const read = (key: string) =>
    recent.get(key, async () => {
      loaded.push(key);
      return 1;
    });
  for (const key of ['a', 'b', 'a', 'c']) await read(key);
  assert.deepEqual(loaded.splice(0), ['a', 'b', 'c']);
  await clock.advance(4000);
  assert.deepEqual(loaded.splice(0), ['a', 'c']);
  await clock.advance(1000);
  await read('b');
  assert.deepEqual(loaded.splice(0), ['b'], 'its time was over');
  await clock.advance(4000);
  assert.deepEqual(loaded.splice(0), ['c', 'b'], 'the earliest of three is not');
});

test('Recent: an error of a load ahead ends them until the next request', async () => {
  const { clock, recent, load, close } = setup(100, 60_000);
  let isBroken = false;
  const broken = async () => {
    if (isBroken) throw new Error('no store');
    return 1;
  };
  assert.equal(await recent.get('a', broken), 1);
  isBroken = true;
  await clock.advance(4000);
  assert.equal(await recent.get('a', load(2)), 1);
  await clock.advance(0);
  assert.equal(await recent.get('a', load(3)), 2, 'the request loaded the next one');
  close();
  assert.equal(clock.pending, 0);
});

test('Recent: nothing is loaded or kept after the end', async () => {
  const { clock, recent, load, close } = setup(100, 60_000);
  await recent.get('a', load(1));
  const slow = Promise.withResolvers<number>();
  await recent.get('b', load(2));
  await clock.advance(2500);
  await recent.get('b', () => slow.promise);
  close();
  slow.resolve(3);
  await clock.advance(0);
  assert.equal(clock.pending, 0);
});

test('Recent: beyond the weight the oldest values are dropped', async () => {
  const { recent, load } = setup(10);
  for (const [key, value] of [
    ['a', 4],
    ['b', 5],
    ['c', 2],
  ] as const) {
    await recent.get(key, load(value));
  }
  assert.equal(await recent.get('b', load(7)), 5);
  assert.equal(await recent.get('c', load(7)), 2);
  assert.equal(await recent.get('a', load(3)), 3);
  assert.equal(await recent.get('d', load(11)), 11);
  assert.equal(await recent.get('d', load(1)), 1, 'too heavy to be kept');
});
