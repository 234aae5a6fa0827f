import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { readEventStream } from '../../../src/cli/http/event-stream.ts';

describe('readEventStream', () => {
  const text =
    ':connected\nretry: 2000\n\nevent: user.created\nid: MQ\ndata: {"a":"ü"}\n\n' +
    ': heartbeat\n\nevent: offset-only\r\nid: Mg\r\ndata: {}\r\n\r\ndata: x\ndata:  y\n\n';
  const expected = [
    { event: 'user.created', id: 'MQ', data: '{"a":"ü"}' },
    { event: 'offset-only', id: 'Mg', data: '{}' },
    { event: undefined, id: 'Mg', data: 'x\n y' },
  ];
  const read = (chunks: readonly Uint8Array[], onRetry = (_retryMs: number): void => {}) =>
    Array.fromAsync(readEventStream(ReadableStream.from<Uint8Array>(chunks), onRetry));

  test('readEventStream: reads the same events however the bytes are cut', async () => {
    const bytes = Buffer.from(text);
    const cutsOf = fc.array(fc.integer({ min: 0, max: bytes.length }));
    await fc.assert(
      fc.asyncProperty(cutsOf, async (cuts) => {
        const ends = [...cuts.toSorted((a, b) => a - b), bytes.length];
        const chunks = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
        const retries: number[] = [];
        assert.deepEqual(await read(chunks, (retryMs) => retries.push(retryMs)), expected);
        assert.deepEqual(retries, [2000]);
      }),
    );
  });

  test('readEventStream: an id stays for the events after it, also one without data', async () => {
    const ids = async (stream: string) =>
      (await read([Buffer.from(stream)])).map(({ id, data }) => [id, data]);
    assert.deepEqual(await ids('data: 1\n\nid: a\n\ndata: 2\n\nid: b\ndata: 3\n\ndata: 4\n\n'), [
      [undefined, '1'],
      ['a', '2'],
      ['b', '3'],
      ['b', '4'],
    ]);
  });

  test('readEventStream: drops an event that is cut off', async () => {
    assert.deepEqual(await read([Buffer.from('event: a\ndata: 1\n')]), []);
  });

  test('readEventStream: fails on an event without an end', async () => {
    const line = Buffer.from(`data: ${'x'.repeat(1024 * 1024)}\n`);
    await assert.rejects(read(Array<Buffer>(10).fill(line)), RangeError);
  });
});
