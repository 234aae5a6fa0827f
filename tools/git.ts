import { spawnSync } from 'node:child_process';

/** Returns what git prints, without white space at the ends; `undefined` when it fails. */
export function git(folder: string, words: readonly string[]): string | undefined {
  const { status, stdout } = spawnSync('git', words, {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  return status === 0 ? stdout.trim() : undefined;
}
