import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readLines } from '../../src/cli/read-lines.ts';

describe('readLines', () => {
  const read = (...chunks: readonly Buffer[]) =>
    Array.fromAsync(readLines(ReadableStream.from(chunks) as unknown as AsyncIterable<Uint8Array>));

  test('readLines: splits at LF or CRLF only, however the bytes are cut', async () => {
    const whole = Buffer.from('\uFEFFa\u2028ü\r\n\r\n\uFEFFb\u0085\n', 'utf8');
    const expected = ['a\u2028ü', '', '\uFEFFb\u0085'];
    assert.deepEqual(await read(whole), expected);
    assert.deepEqual(await read(...Array.from(whole, (byte) => Buffer.from([byte]))), expected);
    assert.deepEqual(await read(Buffer.from('a\nb')), ['a', 'b']);
    assert.deepEqual(await read(), []);
  });

  test('readLines: rejects a line that is not UTF-8, by its number', async () => {
    await assert.rejects(read(Buffer.from('a\n'), Buffer.from([0x22, 0xff, 0x22])), {
      message: /^Line 2 of the input is not UTF-8/,
    });
  });
});
