import { link, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';
import { syncPath } from './atomic-write.ts';

/**
 * Creates a file atomically and never replaces one: `fill` writes a draft in the same folder, which
 * only the current user can read. The draft is removed after a failure.
 */
export async function createFile(
  file: string,
  random: RandomBytes,
  fill: (draft: string) => Promise<void>,
): Promise<void> {
  await requireAbsent(file);
  const draft = `${file}.part-${Buffer.from(random(4)).toString('hex')}`;
  try {
    await (await open(draft, 'wx', 0o600)).close();
    await fill(draft);
    await syncPath(draft);
    await moveIfAbsent(draft, file);
    await syncPath(dirname(file));
  } catch (error) {
    throw codeOf(error)?.startsWith('E') === true && !(error instanceof StartRefused)
      ? new StartRefused(`${file} cannot be written: ${(error as Error).message}`, { cause: error })
      : error;
  } finally {
    for (const suffix of ['', '-journal', '-wal', '-shm'])
      await rm(draft + suffix, { force: true });
  }
}

/** Throws `StartRefused` when the name is in use. */
export async function requireAbsent(file: string): Promise<void> {
  const found = await lstat(file).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new StartRefused(`${file} cannot be written: ${String(codeOf(error))}.`, {
      cause: error,
    });
  });
  if (found !== undefined) {
    throw new StartRefused(`${file} exists already: choose another name, or remove it.`);
  }
}

/** Links: that never replaces a file, as a rename would. Renames on file systems without links. */
async function moveIfAbsent(draft: string, file: string): Promise<void> {
  try {
    await link(draft, file);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return requireAbsent(file);
    await requireAbsent(file);
    await rename(draft, file);
  }
}
