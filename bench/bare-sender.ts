/**
 * The baseline for drains: one undici pool for each origin, which posts the same bytes. A request that failed
 * or timed out is sent once more after a pause, as Leat does; nothing else is done. It runs until its channel
 * closes. Reads its order from the parent over IPC.
 */
import { createSecureContext } from 'node:tls';
import { Pool } from 'undici';
import { authority } from '../test/helpers/certificates.ts';
import { firstSeq } from './tls-plan.ts';

export interface BareOrder {
  readonly origins: readonly string[];
  readonly count: number;
  /** Connections to each origin. */
  readonly connections: number;
  readonly timeoutMs?: number;
  /** Absent: nothing is sent again. */
  readonly retryMs?: number;
  /** The body; in two parts the number of the event stands between them. */
  readonly body: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
}

process.once('message', (order: BareOrder) => {
  // One for all connections, as each would otherwise parse the authority again.
  const connect = { secureContext: createSecureContext({ ca: authority }) };
  for (const [stream, origin] of order.origins.entries())
    startStream(stream, origin, order, connect);
});
process.on('disconnect', () => process.exit(0));

/** Starts as many workers as connections; each takes the next event of the stream. */
function startStream(
  stream: number,
  origin: string,
  { origins, count, connections, timeoutMs, retryMs, body, headers }: BareOrder,
  connect: object,
): void {
  const headersTimeout = timeoutMs ?? 60_000;
  const pool = new Pool(origin, { connections, pipelining: 1, headersTimeout, connect });
  const post = async (index: number): Promise<boolean> => {
    try {
      const text = body.join(String(firstSeq + index));
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
      next += origins.length;
      if (!(await post(index)) && retryMs !== undefined)
        setTimeout(() => void post(index), retryMs);
    }
  };
  for (let each = 0; each < connections; each += 1) void work();
}
