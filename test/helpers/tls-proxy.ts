import { once } from 'node:events';
import { request as forward } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { trusted } from './certificates.ts';

/** Terminates TLS in front of a server on loopback, as a proxy of the operator does. */
export interface TlsProxy {
  /** `localhost:port`. */
  readonly domain: string;
  /** The port of the server. */
  readonly targetPort: number;
  close(): Promise<void>;
}

/** Starts a proxy before its target, which may need the port of the proxy. */
export async function startTlsProxy(targetPort: number): Promise<TlsProxy> {
  const server = createServer(trusted, (request, response) => {
    const { method, url: path, headers, socket } = request;
    const forwarded = {
      'x-forwarded-for': socket.remoteAddress ?? '',
      'x-forwarded-host': headers.host ?? '',
      'x-forwarded-proto': 'https',
    };
    const target = { host: '127.0.0.1', port: targetPort, method, path };
    const forwarding = forward(
      { ...target, headers: { ...headers, ...forwarded } },
      (targetResponse) => {
        response.writeHead(targetResponse.statusCode ?? 502, targetResponse.rawHeaders);
        targetResponse.pipe(response);
      },
    );
    forwarding.on('error', () => response.writeHead(502).end());
    request.pipe(forwarding);
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
