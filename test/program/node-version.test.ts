import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeViolation } from '../../src/program/node-version.ts';

test('the program refuses Node older than 26 and says where to get another', () => {
  for (const version of ['26.0.0', '26.10.0', '27.1.0', '100.0.0', process.versions.node]) {
    assert.equal(nodeViolation(version), undefined, version);
  }
  for (const version of ['9.0.0', '22.19.0', '24.11.1', '25.9.0']) {
    assert.match(nodeViolation(version) ?? '', /needs Node 26 or newer, this is .*npm ci/, version);
  }
});
