import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freePort } from './ports.ts';

test('no two programs of a test file get the same port', async () => {
  // By chance alone, 400 of some thousand ports would have the same one twice in nearly every run.
  const ports = await Promise.all(Array.from({ length: 400 }, () => freePort()));
  assert.equal(new Set(ports).size, ports.length);
});
