import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A disk that a test makes slow, failing or full for the programs that it starts with `env`. */
export interface SlowDisk {
  /** The environment of the programs concerned. */
  readonly env: Readonly<Record<string, string>>;
  /** Takes effect with the next call of a running program; a sync that is delayed ends when the delay does. */
  set(faults: DiskFaults): void;
  remove(): Promise<void>;
}

export interface DiskFaults {
  /** Part of the paths of the files concerned; all files without it. */
  readonly path?: string;
  readonly syncDelayMs?: number;
  /** The first syncs of a process that are neither delayed nor fail. */
  readonly syncAfter?: number;
  readonly syncError?: DiskError;
  readonly writeError?: DiskError;
}

export type DiskError = 'EIO' | 'ENOSPC' | 'EDQUOT' | 'EROFS';

/** Returns why this machine cannot make a {@link SlowDisk}, for the option `skip` of a test. */
export function noSlowDisk(): string | false {
  if (process.platform !== 'linux') return 'a slow disk needs LD_PRELOAD of Linux';
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return false;
  } catch {
    return 'a slow disk needs a C compiler, cc';
  }
}

/** Compiles the library that is preloaded; throws where {@link noSlowDisk} returns a reason. */
export function createSlowDisk(faults: DiskFaults = {}): SlowDisk {
  const folder = mkdtempSync(join(tmpdir(), 'leat-slow-disk-'));
  // A PostgreSQL server runs as another user.
  chmodSync(folder, 0o755);
  const library = join(folder, 'slow-disk.so');
  const source = fileURLToPath(new URL('slow-disk.c', import.meta.url));
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const control = join(folder, 'faults');
  const set = (next: DiskFaults): void => {
    // Replaced as a whole: the program reads it at any moment.
    writeFileSync(`${control}.new`, textOf(next));
    renameSync(`${control}.new`, control);
  };
  set(faults);
  return {
    env: { LD_PRELOAD: library, LEAT_SLOW_DISK: control },
    set,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

function textOf({ path = '', syncDelayMs = 0, syncAfter = 0, ...errors }: DiskFaults): string {
  const numberOf = (error: DiskError | undefined): number =>
    error === undefined ? 0 : constants.errno[error];
  return [
    `path=${path}`,
    `sync_delay_ms=${syncDelayMs}`,
    `sync_after=${syncAfter}`,
    `sync_errno=${numberOf(errors.syncError)}`,
    `write_errno=${numberOf(errors.writeError)}`,
    '',
  ].join('\n');
}
