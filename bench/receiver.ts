/**
 * A receiver of webhooks in its own process: it reads HTTP/1.1 requests with a Content-Length
 * straight from the socket, so that the receiving side costs as little as possible and is the same
 * for both sides of a comparison. Messages over IPC:
 *   parent → { kind: 'reset' | 'hold' | 'open' | 'report' }
 *   receiver → { kind: 'listening' | 'report', … }
 */
import { createServer, type Socket } from 'node:net';

export interface ReceiverReport {
  readonly kind: 'report';
  readonly count: number;
  /** Monotonic milliseconds (shared by the processes of one machine) of the first and last one. */
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  /** Arrival by the `"seq":<n>` in the body, with `--seq`. */
  readonly arrivals: readonly (readonly [seq: number, atMs: number])[];
}

const hangs = process.argv.includes('--hang');
/** Responds after 9.5 s: slow, but never a failure. */
const isSlow = process.argv.includes('--slow');
/** Each request needs a connection of its own. */
const closes = process.argv.includes('--close');
const watchesSeq = process.argv.includes('--seq');
const response = `HTTP/1.1 204 No Content\r\n${closes ? 'Connection: close\r\n' : ''}\r\n`;
const slowMs = 9500;

let count = 0;
let firstAtMs = 0;
let lastAtMs = 0;
let arrivals: [number, number][] = [];
/** Requests that are held until `open`; absent when none are held. */
let held: (() => void)[] | undefined;
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

function receive(body: string): void {
  lastAtMs = nowMs();
  if (count === 0) firstAtMs = lastAtMs;
  count++;
  if (!watchesSeq) return;
  const at = body.indexOf('"seq":');
  if (at >= 0) arrivals.push([parseInt(body.slice(at + 6, at + 18), 10), lastAtMs]);
}

function take(socket: Socket, body: string): void {
  receive(body);
  if (isSlow) setTimeout(() => respond(socket), slowMs);
  else if (!hangs) respond(socket);
}

function respond(socket: Socket): void {
  if (closes) socket.end(response);
  else socket.write(response);
}

/** Counts the held requests from now on. */
function open(): void {
  const waiting = held ?? [];
  held = undefined;
  for (const go of waiting) go();
}

function serve(socket: Socket): void {
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  let pending = '';
  socket.on('data', (chunk) => {
    pending = pending === '' ? chunk.toString('latin1') : pending + chunk.toString('latin1');
    for (;;) {
      const headEnd = pending.indexOf('\r\n\r\n');
      if (headEnd < 0) return;
      const length = /content-length: *(\d+)/i.exec(pending.slice(0, headEnd))?.[1];
      const bodyEnd = headEnd + 4 + Number(length ?? 0);
      if (pending.length < bodyEnd) return;
      const body = watchesSeq ? pending.slice(headEnd + 4, bodyEnd) : '';
      pending = pending.slice(bodyEnd);
      if (held === undefined) take(socket, body);
      else held.push(() => take(socket, body));
    }
  });
}

const server = createServer(serve);
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ kind: 'listening', port: typeof address === 'object' ? address?.port : 0 });
});
process.on('message', (message: { kind: string }) => {
  if (message.kind !== 'report') {
    count = 0;
    arrivals = [];
  }
  if (message.kind === 'hold') held = [];
  if (message.kind === 'open') open();
  process.send?.({ kind: 'report', count, firstAtMs, lastAtMs, arrivals });
});
process.on('disconnect', () => process.exit(0));
