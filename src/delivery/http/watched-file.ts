import { readFileSync, statSync } from 'node:fs';
import type { Clock } from '../../core/clock.ts';

export interface WatchedFileDeps<T> {
  readonly path: string;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** The file is checked for a change at most this often. */
  readonly everyMs: number;
  /** Reads the text of the file; of one that is missing or unreadable, the empty text. */
  readonly parse: (text: string) => T;
}

/**
 * Returns a function that returns the parsed content of a small file, read again after it was
 * changed or replaced. The file is checked at the call, as a watch misses the replacement of a
 * file.
 */
export function watchFile<T extends object>(deps: WatchedFileDeps<T>): () => T {
  const { path, clock, everyMs, parse } = deps;
  let present: T | undefined;
  let version: string | undefined;
  let checkedMs = -Infinity;
  return () => {
    const nowMs = clock.elapsedMs();
    if (present !== undefined && nowMs - checkedMs < everyMs) return present;
    checkedMs = nowMs;
    const found = versionOf(path);
    if (present !== undefined && found === version) return present;
    version = found;
    present = parse(textOf(path));
    return present;
  };
}

function versionOf(path: string): string | undefined {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true });
  return stat && `${stat.dev} ${stat.ino} ${stat.size} ${stat.mtimeNs}`;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
