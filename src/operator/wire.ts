import type { ProgressPoint } from './command.ts';
import { MIB } from '../core/units.ts';

/**
 * A response on the operator's socket: lines of JSON. A line with `file` is followed by that many
 * bytes, then by further lines. The last line has `text`, `refused` or `failed`.
 */
export type Line =
  | { readonly progress: ProgressPoint }
  | { readonly file: number }
  | { readonly text: string }
  /** An error that the operator can fix. */
  | { readonly refused: string }
  /** An error of the server. */
  | { readonly failed: string };

/** A line, or bytes of a file. */
export type Part = Line | { readonly bytes: Uint8Array };

const lineBytesMax = 64 * MIB;

/** Splits a response into lines and bytes of files. Throws on malformed input. */
export async function* partsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Part> {
  let rest: Uint8Array = new Uint8Array();
  let fileBytes = 0;
  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length > 0) {
      if (fileBytes > 0) {
        const bytes = rest.subarray(0, fileBytes);
        fileBytes -= bytes.length;
        rest = rest.subarray(bytes.length);
        yield { bytes };
        continue;
      }
      const end = rest.indexOf(0x0a);
      if (end === -1) {
        if (rest.length > lineBytesMax) throw new Error('The server sent a line without an end.');
        break;
      }
      const line = JSON.parse(Buffer.from(rest.subarray(0, end)).toString()) as Line;
      rest = rest.subarray(end + 1);
      if ('file' in line) fileBytes = line.file;
      yield line;
    }
  }
  if (rest.length > 0 || fileBytes > 0)
    throw new Error('The server ended in the middle of a response.');
}

/** The body of `POST /command`. */
export interface CommandRequest {
  readonly command: string;
  readonly args: Readonly<Record<string, string | boolean | undefined>>;
}
