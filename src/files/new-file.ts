import { link, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { RandomBytes } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';

/**
 * Makes a file whole or not at all, and never in the place of another: `fill` writes a draft beside
 * it, which only the own user can read. What is left of a failure is removed.
 */
export async function makeFile(
  file: string,
  random: RandomBytes,
  fill: (draft: string) => Promise<void>,
): Promise<void> {
  await refusePresent(file);
  const draft = `${file}.part-${Buffer.from(random(4)).toString('hex')}`;
  try {
    await (await open(draft, 'wx', 0o600)).close();
    await fill(draft);
    await synced(draft);
    await place(draft, file);
    await synced(dirname(file));
  } catch (error) {
    throw codeOf(error)?.startsWith('E') === true && !(error instanceof StartRefused)
      ? new StartRefused(`${file} cannot be written: ${(error as Error).message}`, { cause: error })
      : error;
  } finally {
    for (const rest of ['', '-journal', '-wal', '-shm']) await rm(draft + rest, { force: true });
  }
}

/** Throws `StartRefused` when something has the name already. */
export async function refusePresent(file: string): Promise<void> {
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

/** A link never replaces a file, as a rename would; not every file system has links. */
async function place(draft: string, file: string): Promise<void> {
  try {
    await link(draft, file);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return refusePresent(file);
    await refusePresent(file);
    await rename(draft, file);
  }
}

async function synced(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
