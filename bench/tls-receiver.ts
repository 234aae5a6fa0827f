/**
 * Receivers of webhooks over TLS, each an origin of its own (a port), all in this process.
 *   parent → { reset: uncounted } | 'report'
 *   receiver → { ports } at first, then TlsReport
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { trusted } from '../test/helpers/certificates.ts';
import { nowMs } from './proc.ts';
import { readRequests, seqOf } from './requests.ts';
import { delayMsOf, firstSeq, responseTo, streams } from './tls-plan.ts';

export type TlsOrder = { readonly reset: number } | 'report';

export interface TlsReport {
  /** First attempts that have arrived, those included that are not counted in the time. */
  readonly count: number;
  /** Monotonic milliseconds (shared by the processes of one machine) of the first counted one and the last. */
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  readonly connections: number;
}

const delivered = 'HTTP/1.1 204 No Content\r\n\r\n';
const failed = 'HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n';

let seen = new Set<number>();
/** First attempts at the beginning, in which connections are made. */
let uncounted = 0;
let report = emptyReport();

function emptyReport() {
  return { count: 0, firstAtMs: 0, lastAtMs: 0, connections: 0 };
}

function take(socket: TLSSocket, request: string): void {
  const index = seqOf(request) - firstSeq;
  const isFirst = !seen.has(index);
  if (isFirst) {
    seen.add(index);
    report.lastAtMs = nowMs();
    if (report.count === uncounted) report.firstAtMs = report.lastAtMs;
    report.count += 1;
  }
  const response = isFirst ? responseTo(index) : 'deliver';
  if (response === 'hang') return;
  setTimeout(respond, delayMsOf(index), socket, response === 'fail' ? failed : delivered);
}

function respond(socket: TLSSocket, response: string): void {
  if (socket.writable) socket.write(response, 'latin1');
}

function serve(socket: TLSSocket): void {
  report.connections += 1;
  readRequests(socket, (request) => take(socket, request));
}

const ports: number[] = [];
while (ports.length < streams) {
  const server = createServer(trusted, serve).listen(0, '127.0.0.1');
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  await once(server, 'listening');
  ports.push((server.address() as AddressInfo).port);
}
process.send?.({ ports });
process.on('message', (message: TlsOrder) => {
  if (message !== 'report') {
    uncounted = message.reset;
    seen = new Set();
    report = emptyReport();
  }
  process.send?.(report satisfies TlsReport);
});
process.on('disconnect', () => process.exit(0));
