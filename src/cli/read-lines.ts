import { CommandFailed, exitCodes } from './errors.ts';

/**
 * Yields the lines of a UTF-8 text without line ends (LF or CRLF) and without a byte order mark.
 * Unlike node:readline it does not split at U+2028, which JSON strings may contain. Throws
 * {@link CommandFailed} at bytes that are not UTF-8, after the lines before them.
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let parts: Uint8Array[] = [];
  let number = 0;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, start)) {
      yield lineOf([...parts, chunk.subarray(start, end)], ++number);
      parts = [];
      start = end + 1;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
  if (parts.length > 0) yield lineOf(parts, number + 1);
}

const LF = 10;

/** `number` is 1-indexed. */
function lineOf(parts: readonly Uint8Array[], number: number): string {
  try {
    // U+FEFF is a byte order mark in the first line only.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: number > 1 });
    return text.decode(Buffer.concat(parts)).replace(/\r$/, '');
  } catch (error) {
    const message = `Line ${number} of the input is not UTF-8: convert it, for example with iconv.`;
    throw new CommandFailed(exitCodes.failed, message, { cause: error });
  }
}
