import { execFileSync } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

/**
 * Returns the path of npm's program: of the npm that runs this process, or the first one in PATH.
 * Started with `process.execPath`, it runs on the Node of the lock file.
 */
export function npmProgram(): string {
  const running = process.env['npm_execpath'];
  // Run by npx, it is the program of npx in the same folder.
  const own = running === undefined ? undefined : join(dirname(running), 'npm-cli.js');
  if (own !== undefined && existsSync(own)) return own;
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  const found = folders
    .flatMap((folder) => [
      join(folder, 'npm'),
      join(folder, 'node_modules', 'npm', 'bin', 'npm-cli.js'),
    ])
    .filter((path) => existsSync(path))
    .map((path) => realpathSync(path))
    .find((path) => path.endsWith('.js'));
  if (found === undefined) throw new Error('PATH has no npm: run it through npm.');
  return found;
}

/** Runs npm to its end and returns what it prints. */
export function runNpm(words: readonly string[], folder: string): string {
  return execFileSync(process.execPath, [npmProgram(), ...words], {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
}
