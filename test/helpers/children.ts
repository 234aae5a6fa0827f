import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';

/** Programs that tests start end with the process that started them, also when it is killed. */

export interface EndOptions {
  /** The signal that ends it; `KILL` when absent. */
  readonly signal?: 'KILL' | 'QUIT';
  /** Removed afterwards, if it exists. */
  readonly folder?: string;
  /** It is meant to run until this process exits. */
  readonly untilExit?: boolean;
}

const running = new Map<ChildProcess, string>();

/**
 * Ends a child when this process ends before it, however it ends: a shell waits for the end of its
 * input and sends the signal then. A test process that passes and leaves a child alive fails.
 * `release` ends the shell early and keeps the folder; an exit of the child does the same when there
 * is no folder.
 */
export function endWithProcess(child: ChildProcess, options: EndOptions = {}): () => void {
  if (child.pid === undefined) return () => undefined;
  const { signal = 'KILL', folder = '', untilExit = false } = options;
  if (!untilExit) running.set(child, child.spawnargs.join(' '));
  const script = `read -r _ && exit
    kill -${signal} "$0" 2>/dev/null
    [ -n "$1" ] || exit 0
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$0" 2>/dev/null || break; sleep 0.1; done
    rm -rf "$1"`;
  const shell = spawn('/bin/sh', ['-c', script, String(child.pid), folder], {
    // In a group of its own, so that it receives no Ctrl+C.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  shell.unref();
  if (shell.stdin instanceof Socket) shell.stdin.unref();
  shell.stdin.on('error', () => undefined);
  const release = (): void => {
    running.delete(child);
    shell.stdin.end('\n');
  };
  child.once('exit', () => {
    running.delete(child);
    if (folder === '') release();
  });
  return release;
}

process.on('exit', (code) => {
  const left = [...running].filter(([child]) => !child.killed);
  if (code !== 0 || left.length === 0) return;
  process.exitCode = 1;
  for (const [child, command] of left) {
    process.stderr.write(`This test left process ${child.pid} running: ${command}\n`);
  }
});
