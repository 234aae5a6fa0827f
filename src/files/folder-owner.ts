import { stat } from 'node:fs/promises';
import { codeOf } from '../core/errors.ts';

/**
 * Gives a new file of root the owner of its folder, as SQLite does with its own files: a service that runs
 * as that user could not open what a command of root has written. Does nothing for other users.
 *
 * @param chown changes the owner of the file, without following a symbolic link
 */
export async function giveToFolderOwner(
  folder: string,
  chown: (uid: number, gid: number) => Promise<void>,
): Promise<void> {
  if (process.geteuid?.() !== 0) return;
  const { uid, gid } = await stat(folder);
  if (uid === 0) return;
  try {
    await chown(uid, gid);
  } catch (error) {
    // Root without the capability, or of another machine: then the file stays as it is.
    if (codeOf(error) !== 'EPERM') throw error;
  }
}
