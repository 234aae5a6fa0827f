import type { Socket } from 'node:net';

/** Calls `take` with each HTTP/1.1 request that arrives on a connection, head and body. */
export function readRequests(socket: Socket, take: (request: string) => void): void {
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  let pending = '';
  socket.on('data', (chunk) => {
    pending = pending === '' ? chunk.toString('latin1') : pending + chunk.toString('latin1');
    for (;;) {
      const headEnd = pending.indexOf('\r\n\r\n');
      if (headEnd < 0) return;
      const length = /content-length: *(\d+)/i.exec(pending.slice(0, headEnd))?.[1];
      const end = headEnd + 4 + Number(length ?? 0);
      if (pending.length < end) return;
      const request = pending.slice(0, end);
      pending = pending.slice(end);
      take(request);
    }
  });
}

const seqKey = '"seq":';

/** Returns `data.object.seq` of a body; NaN without one. */
export function seqOf(request: string): number {
  const at = request.lastIndexOf(seqKey);
  return at < 0 ? NaN : Number.parseInt(request.slice(at + seqKey.length, at + 18), 10);
}

/** Of 10,050 events 50 always fail. */
const every = 201;

/** Returns whether a receiver that refuses some events always fails this one. */
export function isPoison(seq: number): boolean {
  return seq >= 0 && seq % every === every - 1;
}
