/**
 * A hostile client in its own process: repeats the requests of a case from the message `{ start }`
 * until the message `{ stop: true }`, and then reports the number of responses by status.
 */
import { connect, type Socket } from 'node:net';
import { type Case, hostileCases } from './hostile-cases.ts';
import type { Host } from './hostile-request.ts';

/** Messages of the parent; `host` comes first. */
export type Ask = { readonly host: Host } | { readonly start: string } | { readonly stop: true };

/** Responses by status; `closed` counts connections that the server closed. */
export type Statuses = Record<string, number>;

let cases: readonly Case[] = [];
let sockets: Socket[] = [];
let statuses: Statuses = {};
let running = false;
let port = 0;

process.on('message', (ask: Ask) => {
  if ('host' in ask) {
    cases = hostileCases(ask.host);
    port = ask.host.port;
    process.send?.({ names: cases.map(({ name }) => name) });
  } else if ('start' in ask) {
    statuses = {};
    running = true;
    const wanted = cases.find(({ name }) => name === ask.start);
    if (wanted !== undefined) start(wanted, port);
  } else {
    running = false;
    for (const socket of sockets) socket.destroy();
    sockets = [];
    process.send?.(statuses);
  }
});
process.on('disconnect', () => process.exit(0));

function start(wanted: Case, at: number): void {
  for (let index = 0; index < wanted.connections; index += 1) open(wanted, at, index);
}

function open(wanted: Case, at: number, index: number): void {
  if (!running) return;
  const socket = connect(at, '127.0.0.1');
  sockets.push(socket);
  let turn = index;
  let head = '';
  let left = 0;
  const send = (): void => {
    socket.write(wanted.requests[turn % wanted.requests.length] ?? Buffer.alloc(0));
    turn += 1;
  };
  const answered = (status: string): void => {
    statuses[status] = (statuses[status] ?? 0) + 1;
    setTimeout(send, status === '429' ? 200 : wanted.pauseMs);
  };
  socket.on('connect', () => {
    if (wanted.silent === true) socket.pause();
    send();
  });
  socket.on('data', (chunk) => {
    if (left > 0) {
      left -= chunk.length;
      if (left <= 0) answered(head);
      return;
    }
    const text = chunk.toString('latin1');
    const headEnd = text.indexOf('\r\n\r\n');
    head = text.slice(9, 12);
    left = Number(/content-length: *(\d+)/i.exec(text)?.[1] ?? 0) - (chunk.length - headEnd - 4);
    if (left <= 0) answered(head);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    if (!running) return;
    statuses['closed'] = (statuses['closed'] ?? 0) + 1;
    setTimeout(() => open(wanted, at, index), wanted.pauseMs + 10);
  });
}
