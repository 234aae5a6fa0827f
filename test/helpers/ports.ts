import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems assign on their own, so that a stopped server keeps its port. */
const ports = { min: 10_000, max: 32_767 };

/** Returns a port of 127.0.0.1 that nothing listens on. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(ports.min, ports.max + 1);
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
