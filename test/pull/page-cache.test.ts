import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { ownBytes } from '../../src/core/own-bytes.ts';
import { PageCache } from '../../src/pull/pages.ts';
import type { Page } from '../../src/pull/page.ts';
import { FilterGroup } from '../../src/pull/reader.ts';

const all = new FilterGroup(undefined, '*');
const some = new FilterGroup(['a.b'], 'a.b');
const pagesMax = 32;

describe('page cache', () => {
  let cache: PageCache;
  let reads: string[];
  beforeEach(() => {
    cache = new PageCache();
    reads = [];
  });

  const pageAfter = (after: number): Page => ({
    bytes: ownBytes(Buffer.from('x')),
    last: { offset: after + 1, check: 0 },
    scannedTo: after + 1,
    isOvertaken: false,
  });
  const get = (after: number, group = all, page = pageAfter(after)): Promise<Page> =>
    cache.page(group, after, async () => {
      reads.push(`${group.key} ${after}`);
      return page;
    });

  test('page cache: readers at one offset share a read, also while it runs', async () => {
    const [one, other] = await Promise.all([get(7), get(7)]);
    assert.equal(one, other);
    await get(7, some);
    assert.deepEqual(reads, ['* 7', 'a.b 7']);
  });

  test('page cache: a page outlasts those that faster readers read, as long as it is used', async () => {
    await get(0);
    for (let after = 1; after < 3 * pagesMax; after += 1) {
      await get(after);
      await get(0);
    }
    assert.equal(reads.filter((read) => read === '* 0').length, 1);
  });

  test('page cache: drops the page that was not used for longest', async () => {
    for (let after = 0; after < pagesMax; after += 1) await get(after);
    await get(0);
    await get(pagesMax);
    reads = [];
    await get(0);
    assert.deepEqual(reads, []);
    await get(1);
    assert.deepEqual(reads, ['* 1']);
  });

  test('page cache: keeps neither a page without progress nor a failure', async () => {
    await get(5, all, { ...pageAfter(5), scannedTo: 5 });
    await get(5);
    assert.equal(reads.length, 2);
    const failing = cache.page(some, 5, () => Promise.reject(new Error('away')));
    await assert.rejects(failing, /away/);
    await get(5, some);
    assert.equal(reads.length, 3);
  });

  test('page cache: a read that began before clear does not remove a newer page', async () => {
    const { promise, reject } = Promise.withResolvers<Page>();
    const old = cache.page(all, 1, () => promise);
    cache.clear();
    await get(1);
    reject(new Error('late'));
    await assert.rejects(old, /late/);
    await get(1);
    assert.deepEqual(reads, ['* 1']);
  });
});
