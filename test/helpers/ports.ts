import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Below the ports that systems assign on their own, so that a stopped server keeps its port; above the
 * last one that `fetch` and browsers refuse to connect to, 10080 (Fetch Standard, "bad port").
 */
export const ports = { min: 10_081, max: 32_767 };

/**
 * Has a file for each port, with the process that chose it. A program listens some time after that: a
 * second one with the same port, of this or another test file, would look ready while the first one
 * responds there.
 */
const folder = join(tmpdir(), 'leat-test-ports');
const chosen: string[] = [];

process.on('exit', () => {
  for (const file of chosen) rmSync(file, { force: true });
});

/** Returns a port of 127.0.0.1 that nothing listens on and that no running test has. */
export async function freePort(): Promise<number> {
  mkdirSync(folder, { recursive: true });
  for (;;) {
    const port = randomInt(ports.min, ports.max + 1);
    if (!choose(join(folder, String(port)))) continue;
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch {
      continue;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Returns false when a process has the port, of which the file of an ended one is removed. */
function choose(file: string): boolean {
  try {
    const handle = openSync(file, 'wx');
    writeSync(handle, String(process.pid));
    closeSync(handle);
    chosen.push(file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (!isRunning(file)) rmSync(file, { force: true });
    return false;
  }
}

function isRunning(file: string): boolean {
  try {
    const pid = Number(readFileSync(file, 'utf8'));
    // Just created: the process has not written its number yet.
    if (pid === 0) return true;
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
