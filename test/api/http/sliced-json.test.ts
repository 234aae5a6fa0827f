import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JsonText, slicedJson } from '../../../src/api/http/sliced-json.ts';

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
    test(`serializes body ${index} like JSON.stringify`, async () => {
      assert.equal(await textOf(body), JSON.stringify(body));
    });
  }

  test('inserts JsonText unchanged', async () => {
    const user = new JsonText('{"id":', '1', '}');
    assert.equal(await textOf(user), '{"id":1}');
    assert.equal(await textOf([user]), '[{"id":1}]');
    assert.equal(
      await textOf({ users: [user, user], total: 2 }),
      '{"users":[{"id":1},{"id":1}],"total":2}',
    );
    assert.equal(await textOf({ users: [user] }), '{"users":[{"id":1}]}');
  });

  test('slicedJson returns pieces for long bodies only', async () => {
    assert.equal(typeof (await slicedJson([{ a: 1 }, { a: 2 }])), 'string');
    const pieces = await slicedJson([...Array(20).fill('é'.repeat(40_000))]);
    assert.ok(Array.isArray(pieces) && pieces.length >= 10, typeof pieces);
  });

  test('yields to the event loop between the items of a long list', async () => {
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

async function textOf(body: unknown): Promise<string> {
  const json = await slicedJson(body);
  return typeof json === 'string' ? json : Buffer.concat(json).toString();
}
