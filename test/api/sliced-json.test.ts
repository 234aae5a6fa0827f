import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { slicedJson } from '../../src/api/sliced-json.ts';

describe('slicedJson', () => {
  const bodies: unknown[] = [
    {},
    [],
    null,
    'text',
    1.5,
    { a: 1, b: undefined, c: [undefined, null] },
    [{ a: 1 }, { a: undefined }, [1, 2], 'x', null],
    { start: 0, limit: 50, total: 2, users: [{ id: 1 }, { id: 2 }], next: undefined },
    { 'a "name"': [1, 2], other: { list: [1, 2] }, second: [3, 4] },
    { users: Array.from({ length: 20 }, (_, n) => ({ n, text: 'é"\\'.repeat(20_000) })) },
  ];
  for (const [index, body] of bodies.entries()) {
    test(`writes body ${index} as JSON.stringify does`, async () => {
      assert.equal(await slicedJson(body), JSON.stringify(body));
    });
  }

  test('gives way between the items of a long list', async () => {
    const items = Array.from({ length: 20 }, () => 'x'.repeat(100_000));
    let turns = 0;
    let done = false;
    const count = (): void => {
      turns += 1;
      if (!done) setImmediate(count);
    };
    setImmediate(count);
    await slicedJson(items);
    done = true;
    assert.ok(turns >= 9, `${turns} turns`);
  });
});
