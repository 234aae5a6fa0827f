import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems assign on their own, so that a stopped server keeps its port. */
const ports = { min: 10_000, max: 32_767 };

/** Test files that run at the same time take their ports from ranges of their own. */
const ranges = 8;
const rangeSize = Math.floor((ports.max + 1 - ports.min) / ranges);
const rangeMin = ports.min + (Number(process.env['NODE_TEST_WORKER_ID'] ?? 0) % ranges) * rangeSize;

/**
 * Ports of this process. A program listens some time after its port was chosen: a second one with the
 * same port would look ready while the first one responds there.
 */
const chosen = new Set<number>();

/** Returns a port of 127.0.0.1 that nothing listens on and that it has not returned before. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(rangeMin, rangeMin + rangeSize);
    if (chosen.has(port)) continue;
    chosen.add(port);
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
