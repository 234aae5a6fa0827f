import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { RandomBytes } from '../core/clock.ts';
import { giveToFolderOwner } from './folder-owner.ts';

export interface AtomicWriteOptions {
  /** Makes the name of the draft unique. */
  readonly random: RandomBytes;
  readonly mode: number;
  /** Whether a file that root writes belongs to the owner of its folder. */
  readonly isOfFolderOwner?: boolean;
  /** Moves the draft to its name; by default it replaces an existing file. */
  readonly move?: (draft: string, file: string) => Promise<void>;
}

/**
 * Writes a file atomically: under another name first, so that readers find the complete file, which is
 * on disk. Rejects with the error of the file system.
 */
export async function writeAtomically(
  file: string,
  text: string,
  { random, mode, isOfFolderOwner = false, move = rename }: AtomicWriteOptions,
): Promise<void> {
  const draft = `${file}.${Buffer.from(random(8)).toString('hex')}`;
  try {
    const handle = await open(draft, 'wx', mode);
    try {
      if (isOfFolderOwner) {
        await giveToFolderOwner(dirname(file), (uid, gid) => handle.chown(uid, gid));
      }
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await move(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
}

/** Syncs a file, or the names in a folder, to the disk. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
