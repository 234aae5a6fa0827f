/**
 * The baseline for the drain over TLS: one undici pool for each origin, which posts the same bytes. A request
 * that failed or timed out is sent once more after a second, as Leat does; nothing else is done. It runs until
 * its channel closes. Reads its order from the parent over IPC.
 */
import { createSecureContext } from 'node:tls';
import { Pool } from 'undici';
import { authority } from '../test/helpers/certificates.ts';
import { firstSeq } from './tls-plan.ts';

export interface BareTlsOrder {
  readonly ports: readonly number[];
  readonly count: number;
  /** Connections to each origin. */
  readonly connections: number;
  readonly timeoutMs: number;
  readonly retryMs: number;
  /** The body before and after the number of the event. */
  readonly body: readonly [before: string, after: string];
  readonly headers: Readonly<Record<string, string>>;
}

/** One for all connections, as each would otherwise parse the authority again. */
const secureContext = createSecureContext({ ca: authority });

process.once('message', (order: BareTlsOrder) => {
  for (const [stream, port] of order.ports.entries()) startStream(stream, port, order);
});
process.on('disconnect', () => process.exit(0));

/** Starts as many workers as connections; each takes the next event of the stream. */
function startStream(stream: number, port: number, order: BareTlsOrder): void {
  const { ports, count, connections, timeoutMs, retryMs, body, headers } = order;
  const pool = new Pool(`https://127.0.0.1:${port}`, {
    connections,
    pipelining: 1,
    headersTimeout: timeoutMs,
    connect: { secureContext },
  });
  const post = async (index: number): Promise<boolean> => {
    try {
      const text = `${body[0]}${firstSeq + index}${body[1]}`;
      const response = await pool.request({ path: '/', method: 'POST', headers, body: text });
      await response.body.dump();
      return response.statusCode < 300;
    } catch {
      return false;
    }
  };
  let next = stream;
  const work = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += ports.length;
      if (!(await post(index))) setTimeout(() => void post(index), retryMs);
    }
  };
  for (let each = 0; each < connections; each += 1) void work();
}
