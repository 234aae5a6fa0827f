import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readObject } from '../../src/console/json-text.ts';
import { withoutSecrets } from '../../src/console/stream-command.ts';

const data = '{"id":1546130668394913822,"price":1.10}';

test('readObject: numbers keep the digits that somebody types', () => {
  const reading = readObject(data);
  assert.ok('value' in reading);
  assert.equal(JSON.stringify(reading.value), data);
});

test('withoutSecrets: a command shows the numbers that are sent', () => {
  const reading = readObject(`{"filter":${data}}`);
  assert.ok('value' in reading);
  const shown = withoutSecrets({ delivery: reading.value });
  assert.equal(JSON.stringify(shown), `{"delivery":{"filter":${data}}}`);
});
