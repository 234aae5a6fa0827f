import { CommandFailed, exitCodes } from './errors.ts';

/**
 * The lines of a text in UTF-8, without their ends (LF or CRLF) and without a byte order mark. Other
 * characters end no line, as U+2028 does for node:readline: JSON may have them in its texts.
 * Throws {@link CommandFailed} at bytes that are not UTF-8, after the lines before them.
 */
export async function* readLines(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let parts: Uint8Array[] = [];
  let number = 0;
  for await (const piece of pieces) {
    let start = 0;
    for (let end = piece.indexOf(LF); end >= 0; end = piece.indexOf(LF, start)) {
      yield lineOf([...parts, piece.subarray(start, end)], ++number);
      parts = [];
      start = end + 1;
    }
    if (start < piece.length) parts.push(piece.subarray(start));
  }
  if (parts.length > 0) yield lineOf(parts, number + 1);
}

const LF = 10;

/** `number` is 1-indexed. */
function lineOf(parts: readonly Uint8Array[], number: number): string {
  try {
    // A byte order mark is where a file begins; later it is a character as any other.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: number > 1 });
    return text.decode(Buffer.concat(parts)).replace(/\r$/, '');
  } catch (error) {
    const message = `Line ${number} of the input is not UTF-8: convert it first, for example with iconv.`;
    throw new CommandFailed(exitCodes.failed, message, { cause: error });
  }
}
