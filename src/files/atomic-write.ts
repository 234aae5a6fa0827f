import { open, rename, rm } from 'node:fs/promises';
import type { RandomBytes } from '../core/clock.ts';

export interface WholeFile {
  /** Makes the name of the draft, which nobody else has. */
  readonly random: RandomBytes;
  readonly mode: number;
  /** Gives the draft its name; in the place of a former file unless said. */
  readonly place?: (draft: string, file: string) => Promise<void>;
}

/**
 * Writes a file whole or not at all. Under another name first: whoever finds the file finds all of
 * it, on the disk. Rejects with the error of the file system.
 */
export async function writeWhole(
  file: string,
  text: string,
  { random, mode, place = rename }: WholeFile,
): Promise<void> {
  const draft = `${file}.${Buffer.from(random(8)).toString('hex')}`;
  try {
    const handle = await open(draft, 'wx', mode);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await place(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}
