import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { batchesOf } from '../../src/cli/batches.ts';
import { CommandFailed } from '../../src/cli/errors.ts';
import { createManualClock } from '../helpers/clock.ts';

describe('batchesOf', () => {
  async function* from(lines: readonly string[]): AsyncGenerator<string> {
    yield* lines;
  }
  const collect = async (lines: readonly string[]) => {
    const sizes: number[][] = [];
    for await (const { events, lines: numbers } of batchesOf(from(lines), createManualClock())) {
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
          for await (const { events } of batchesOf(
            from(['{}', '', bad, '{}']),
            createManualClock(),
          )) {
            seen.push(events.length);
          }
        },
        (error) =>
          error instanceof CommandFailed && error.message.startsWith('Line 3 of the input'),
      );
      assert.deepEqual(seen, [1]);
    }
  });

  test('batchesOf: a batch goes a second after its first line, also from an input without an end', async () => {
    const clock = createManualClock();
    const input = new PassThrough({ objectMode: true });
    const batches = batchesOf(input as AsyncIterable<string>, clock);
    const line = '{"type":"a.b","data":{}}';
    for (const [count, first] of [
      [1, 1],
      [3, 2],
    ] as const) {
      for (let index = 0; index < count; index++) input.write(line);
      const batch = batches.next();
      await setImmediate();
      await clock.advance(999);
      assert.equal(clock.pending, 1);
      await clock.advance(1);
      const { value } = await batch;
      assert.deepEqual([value?.events.length, value?.lines[0]], [count, first]);
    }
    const rest = batches.next();
    input.end(line);
    assert.equal((await rest).value?.lines[0], 5);
    assert.equal((await batches.next()).done, true);
    assert.equal(clock.pending, 0);
  });
});
