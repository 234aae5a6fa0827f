import { once } from 'node:events';
import { request as forward } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { trusted } from './certificates.ts';

/** Ends TLS in front of a server on loopback, as a proxy of the operator does. */
export interface TlsProxy {
  /** `localhost:port`. */
  readonly domain: string;
  /** Where it sends everything. */
  readonly targetPort: number;
  close(): Promise<void>;
}

/** Listens before there is anything behind it: what is behind may have to know its port. */
export async function startTlsProxy(targetPort: number): Promise<TlsProxy> {
  const server = createServer(trusted, (request, response) => {
    const { method, url: path, headers, socket } = request;
    const forwarded = {
      'x-forwarded-for': socket.remoteAddress ?? '',
      'x-forwarded-host': headers.host ?? '',
      'x-forwarded-proto': 'https',
    };
    const target = { host: '127.0.0.1', port: targetPort, method, path };
    const behind = forward({ ...target, headers: { ...headers, ...forwarded } }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    behind.on('error', () => response.writeHead(502).end());
    request.pipe(behind);
  }).listen(0, 'localhost');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    domain: `localhost:${port}`,
    targetPort,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
