import { open, readFile, rm } from 'node:fs/promises';
import type { Clock, RandomBytes } from '../../core/clock.ts';
import { codeOf } from '../../core/errors.ts';
import { sleep } from '../../core/sleep.ts';

export interface LockDeps {
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  readonly random: RandomBytes;
}

/** A holder reads and writes a small file. One that takes longer was killed. */
const heldMsMax = 5000;
const pollMs = 10;

/**
 * Runs work while no other process does on the same file: they share a lock file next to it. Rejects with
 * the error of the file system when that cannot be created.
 */
export async function withFileLock<T>(
  file: string,
  deps: LockDeps,
  work: () => Promise<T>,
): Promise<T> {
  const path = `${file}.lock`;
  const holder = Buffer.from(deps.random(8)).toString('hex');
  await acquire(path, holder, deps);
  try {
    return await work();
  } finally {
    // Another process may have taken it from one that was suspended.
    if ((await holderOf(path)) === holder) await rm(path, { force: true });
  }
}

async function acquire(path: string, holder: string, { clock }: LockDeps): Promise<void> {
  let seen: string | undefined;
  let seenAtMs = clock.elapsedMs();
  while (!(await create(path, holder))) {
    const present = await holderOf(path);
    if (present !== seen) {
      seen = present;
      seenAtMs = clock.elapsedMs();
    } else if (clock.elapsedMs() - seenAtMs > heldMsMax) {
      await rm(path, { force: true });
    } else {
      await sleep(clock, pollMs);
    }
  }
}

/** Returns false when another process has created it. */
async function create(path: string, holder: string): Promise<boolean> {
  try {
    const handle = await open(path, 'wx', 0o600);
    try {
      await handle.writeFile(holder);
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

function holderOf(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}
