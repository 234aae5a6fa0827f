import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crawl } from '../helpers/console-crawl.ts';
import { assertAlive, exceptions } from './console-crawl-exceptions.ts';
import { openPage, start, testRole } from './console-crawl-roles.ts';

test('every element of the page for signing in does something', { tags: ['long'] }, async (t) => {
  const page = await openPage(t);
  const found = await crawl({ page, start: start(), exceptions, isWithin: () => false });
  assertAlive(found);
  assert.deepEqual(
    found.pressed.map(({ element }) => element),
    [
      '/console: link Sign in with your identity provider to /console/login',
      '/console: button Copy command',
    ],
  );
});

testRole('viewer', { first: 162, second: 153 });
