import type { ProgressPoint } from './command.ts';

/**
 * What the server sends on the operator's socket: lines of JSON. After a line with `file` come that
 * many bytes, then lines again. The last line has `text`, `refused` or `failed`.
 */
export type Line =
  | { readonly progress: ProgressPoint }
  | { readonly file: number }
  | { readonly text: string }
  /** The operator can act on it. */
  | { readonly refused: string }
  /** The server failed. */
  | { readonly failed: string };

/** A line, or bytes of a file. */
export type Part = Line | { readonly bytes: Uint8Array };

const lineBytesMax = 64 * 1024 * 1024;

/** Splits what arrives into lines and bytes of files. Throws on what is no such line. */
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
  if (rest.length > 0 || fileBytes > 0) throw new Error('The server ended in the middle.');
}

/** A command as it is posted to `/command`. */
export interface Ask {
  readonly command: string;
  readonly args: Readonly<Record<string, string | boolean | undefined>>;
}
