import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { createServer as createSocketServer, type Server, type Socket } from 'node:net';
import { waitFor } from './leat.ts';

/** A webhook of the test: real sockets on loopback, and a reply that the test chooses. */
export interface Endpoint {
  readonly url: string;
  readonly port: number;
  /** Every request that arrived completely, oldest first. */
  readonly arrivals: readonly Arrival[];
  /** Connections so far, whether or not a request came over them. */
  connections(): number;
  /** Sets the reply to later requests. */
  respondWith(next: Reply): void;
  /** Waits for the `count`-th request (1-indexed) and returns it. */
  arrival(count: number): Promise<Arrival>;
  /** Arrivals of one event. */
  of(eventId: string): Arrival[];
  close(): Promise<void>;
}

export interface Arrival {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The bytes as text. */
  readonly body: string;
  readonly event: Envelope;
}

export interface Envelope {
  readonly id: string;
  readonly type: string;
  readonly time: string;
  readonly source: string;
  readonly specversion: string;
  readonly data: Record<string, unknown>;
  readonly [attribute: string]: unknown;
}

/** A status with an empty body, or a function that writes the response. */
export type Reply = number | ((response: ServerResponse, arrival: Arrival) => void);

/** Starts a webhook that responds with 204 until the test sets another reply. */
export async function startEndpoint(
  first: Reply = 204,
  tls?: { readonly key: string; readonly cert: string },
): Promise<Endpoint> {
  const arrivals: Arrival[] = [];
  let current = first;
  let connections = 0;
  const server = tls === undefined ? createServer() : createSecureServer(tls);
  server.on('connection', () => {
    connections++;
  });
  server.on('request', (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const { method = '', url: path = '', headers } = request;
      const arrival = { method, path, headers, body, event: envelopeOf(body) };
      arrivals.push(arrival);
      if (typeof current === 'number') response.writeHead(current).end();
      else current(response, arrival);
    });
  });
  const port = await listen(server);
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}/hook`,
    port,
    arrivals,
    connections: () => connections,
    respondWith: (next) => {
      current = next;
    },
    arrival: (count) =>
      waitFor(`request ${count} at the endpoint`, () => arrivals[count - 1], {
        progress: () => arrivals.length,
      }),
    of: (eventId) => arrivals.filter(({ event }) => event.id === eventId),
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Returns a reply with a status and a text. */
export function text(status: number, body: string): Reply {
  return (response) => {
    response.writeHead(status, { 'content-type': 'text/plain' }).end(body);
  };
}

/** A TCP server whose connections the test writes to itself, for responses that are not HTTP. */
export interface RawEndpoint {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/** Starts a raw endpoint; `speak` is called when the head of a request has arrived. */
export async function startRawEndpoint(speak: (socket: Socket) => void): Promise<RawEndpoint> {
  const sockets = new Set<Socket>();
  const server = createSocketServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    // These tests close connections while they are written to.
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.resume();
      speak(socket);
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}/hook`,
    port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  return address.port;
}

function envelopeOf(body: string): Envelope {
  try {
    return JSON.parse(body) as Envelope;
  } catch {
    return { id: '', type: '', time: '', source: '', specversion: '', data: {} };
  }
}
