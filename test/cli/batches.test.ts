import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { batchesOf } from '../../src/cli/batches.ts';
import { CommandFailed } from '../../src/cli/errors.ts';

describe('batchesOf', () => {
  async function* from(lines: readonly string[]): AsyncGenerator<string> {
    yield* lines;
  }
  const collect = async (lines: readonly string[]) => {
    const sizes: number[][] = [];
    for await (const { events, lines: numbers } of batchesOf(from(lines))) {
      sizes.push([events.length, numbers[0] ?? 0]);
    }
    return sizes;
  };

  test('batchesOf: makes batches of a thousand lines, without empty ones', async () => {
    const lines = Array<string>(2500).fill('{"type":"a.b","data":{}}');
    assert.deepEqual(await collect(['', ...lines, ' ']), [
      [1000, 2],
      [1000, 1002],
      [500, 2002],
    ]);
    assert.deepEqual(await collect([]), []);
  });

  test('batchesOf: makes smaller batches of large events', async () => {
    const line = JSON.stringify({ type: 'a.b', data: { object: 'x'.repeat(1_000_000) } });
    assert.deepEqual(await collect([line, line, line, line]), [
      [3, 1],
      [1, 4],
    ]);
  });

  test('batchesOf: throws at a line that is not a JSON object, after the batches before it', async () => {
    for (const bad of ['{"type":', '[]', '1', 'null']) {
      const seen: number[] = [];
      await assert.rejects(
        async () => {
          for await (const { events } of batchesOf(from(['{}', '', bad, '{}']))) {
            seen.push(events.length);
          }
        },
        (error) =>
          error instanceof CommandFailed && error.message.startsWith('Line 3 of the input'),
      );
      assert.deepEqual(seen, [1]);
    }
  });
});
