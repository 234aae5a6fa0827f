/**
 * Clients of a pull on bare sockets: `pull-readers.ts <port> <count> <path> <token>`. Reports
 * when all are connected, when each has received the event that ends the warm-up, if there is one, and
 * when each has received the event that ends a round.
 */
import { connect } from 'node:net';

const [port = '', count = '', path = '', token = ''] = process.argv.slice(2);
const head = [`GET ${path} HTTP/1.1`, `Host: localhost:${port}`];
const request = [...head, `Authorization: Bearer ${token}`, '\r\n'].join('\r\n');
/** The last events of the warm-up and of all have their own types, and may arrive in two parts. */
const warmUpEnd = 'event: bench.warm';
const lastEvent = 'event: bench.end';
let connected = 0;
let warm = 0;
let done = 0;

function open(): void {
  const socket = connect(Number(port), '127.0.0.1', () => socket.write(request));
  let isConnected = false;
  let rest = '';
  socket.on('data', (chunk) => {
    if (!isConnected) {
      isConnected = true;
      const start = chunk.toString('latin1', 0, 400);
      if (!start.startsWith('HTTP/1.1 200')) throw new Error(start);
      connected += 1;
      if (connected === Number(count)) process.send?.({ kind: 'connected' });
    }
    // Only the end is parsed: reading must cost less than writing.
    const end = rest + chunk.toString('latin1', Math.max(0, chunk.length - 1000));
    const isWarm = end.includes(warmUpEnd);
    // The marker is not counted twice.
    rest = isWarm ? '' : end.slice(-warmUpEnd.length);
    if (isWarm) {
      warm += 1;
      if (warm === Number(count)) process.send?.({ kind: 'warm' });
    }
    if (!end.includes(lastEvent)) return;
    socket.destroy();
    done += 1;
    if (done === Number(count)) process.send?.({ kind: 'done', atMs: Date.now() });
  });
  socket.on('error', (error) => {
    throw error;
  });
}

for (let opened = 0; opened < Number(count); opened += 1) open();
process.on('disconnect', () => process.exit(0));
