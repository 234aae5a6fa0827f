/**
 * A receiver of webhooks in its own process: it reads requests straight from the socket, so that the
 * receiving side costs as little as possible and is the same for both sides of a comparison. Messages over IPC:
 *   parent → { kind: 'reset' | 'hold' | 'open' | 'away' | 'back' | 'report' }
 *   receiver → { kind: 'listening' | 'report', … }
 */
import { createServer, type Socket } from 'node:net';
import { nowMs } from './proc.ts';
import { isPoison, readRequests, seqOf } from './requests.ts';

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
/** Some events always fail. */
const isPoisoned = process.argv.includes('--poison');
const refusal = 'HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n';
const response = `HTTP/1.1 204 No Content\r\n${closes ? 'Connection: close\r\n' : ''}\r\n`;
const slowMs = 9500;

let count = 0;
let firstAtMs = 0;
let lastAtMs = 0;
let arrivals: [number, number][] = [];
/** Requests that are held until `open`; absent when none are held. */
let held: (() => void)[] | undefined;
/** While it is away it cuts every connection; the port stays its own. */
let isAway = false;
const sockets = new Set<Socket>();

function take(socket: Socket, request: string): void {
  const seq = watchesSeq ? seqOf(request) : NaN;
  if (isPoisoned && isPoison(seq)) {
    socket.write(refusal);
    return;
  }
  lastAtMs = nowMs();
  if (count === 0) firstAtMs = lastAtMs;
  count++;
  if (watchesSeq) arrivals.push([seq, lastAtMs]);
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

function leave(): void {
  isAway = true;
  for (const socket of sockets) socket.resetAndDestroy();
}

function serve(socket: Socket): void {
  if (isAway) {
    socket.resetAndDestroy();
    return;
  }
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket));
  readRequests(socket, (request) => {
    if (held === undefined) take(socket, request);
    else held.push(() => take(socket, request));
  });
}

const server = createServer(serve);
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ kind: 'listening', port: typeof address === 'object' ? address?.port : 0 });
});
process.on('message', (message: { kind: string }) => {
  if (['reset', 'hold', 'open'].includes(message.kind)) {
    count = 0;
    arrivals = [];
  }
  if (message.kind === 'away') leave();
  if (message.kind === 'back') isAway = false;
  if (message.kind === 'hold') held = [];
  if (message.kind === 'open') open();
  process.send?.({ kind: 'report', count, firstAtMs, lastAtMs, arrivals });
});
process.on('disconnect', () => process.exit(0));
