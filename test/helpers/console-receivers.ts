import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expired } from './certificates.ts';
import { startDns } from './dns.ts';
import { startEndpoint, startRawEndpoint } from './endpoint.ts';
import { freePort } from './ports.ts';

/**
 * The webhooks of an installation with much to see: real sockets on loopback, with host names that the
 * service resolves through a name server of their own.
 */
export interface ConsoleReceivers {
  /** Settings of a service that sends to them. */
  readonly settings: Readonly<Record<string, string>>;
  /** Returns the URL of an endpoint that behaves in this way. */
  url(behaviour: Behaviour, path: string): string;
  /** Makes an endpoint respond with 204 from now on. */
  repair(path: string): void;
  /** Requests that were answered so far, by path. */
  count(path: string): number;
  close(): Promise<void>;
}

export type Behaviour =
  | 'http'
  | 'silent'
  | 'dns'
  | 'refused'
  | 'reset'
  | 'tls'
  | 'protocol'
  | 'blocked';

/** The domain of the receivers. */
const domain = 'acme.example';
/** A name in it that resolves to a private address. */
const privateName = `wiki.intranet.${domain}`;
const unknownName = `gone.${domain}`;

interface Answer {
  readonly status: number;
  readonly text?: string;
}

/** Returns the response of an endpoint to an event; those that are not here respond with 204. */
const answers: Readonly<Record<string, (event: ReceivedEvent) => Answer>> = {
  '/warehouse/orders': () => ({
    status: 503,
    text: 'upstream connect error or disconnect/reset before headers. reset reason: overflow',
  }),
  '/crm/contacts': ({ type, data }) => {
    if (type === 'contact.deleted') return { status: 503, text: 'maintenance window' };
    if (type === 'contact.merged') return { status: 409, text: 'contact was merged elsewhere' };
    if (data.object?.['email'] !== null) return { status: 204 };
    return { status: 400, text: '{"error":"invalid_contact","message":"email: is required"}' };
  },
  '/partners/acme': () => ({ status: 401, text: 'invalid api key' }),
  '/shipping': () => ({ status: 503, text: 'carrier is not available, try again later' }),
  '/inventory': ({ data }) =>
    data.object?.['quantity'] === -1
      ? { status: 422, text: 'quantity must not be negative: Größe 42 „Läufer“ – 在庫' }
      : { status: 204 },
  '/exports': () => ({ status: 503, text: 'the export is running' }),
  '/renewals': ({ data }) =>
    data.object?.['plan'] === 'retired' ? { status: 409, text: 'plan retired' } : { status: 204 },
  '/token': () => ({ status: 401, text: '{"error":"invalid_client"}' }),
};

interface ReceivedEvent {
  readonly type: string;
  readonly data: { readonly object?: Readonly<Record<string, unknown>> };
}

/** Starts all of them. */
export async function startConsoleReceivers(): Promise<ConsoleReceivers> {
  const repaired = new Set<string>();
  const counts = new Map<string, number>();
  const http = await startHttp((path, body) => {
    counts.set(path, (counts.get(path) ?? 0) + 1);
    const answer = repaired.has(path) ? undefined : answers[path];
    return answer?.(readEvent(body)) ?? { status: 204 };
  });
  const silent = await startEndpoint(() => undefined);
  const secure = await startEndpoint(204, expired);
  const resetting = await startRawEndpoint((socket) => void socket.resetAndDestroy());
  const other = await startRawEndpoint((socket) => void socket.end('SSH-2.0-OpenSSH_9.9\r\n'));
  const closedPort = await freePort();
  const dns = await startDns((name) => {
    if (name === privateName) return ['10.20.30.40'];
    return name !== unknownName && name.endsWith(domain) ? ['127.0.0.1'] : 'no such name';
  });
  const origins: Readonly<Record<Behaviour, string>> = {
    http: `http://hooks.${domain}:${http.port}`,
    silent: `http://scoring.${domain}:${silent.port}`,
    dns: `http://${unknownName}`,
    refused: `http://printers.${domain}:${closedPort}`,
    reset: `http://loyalty.${domain}:${resetting.port}`,
    tls: `https://tax.${domain}:${secure.port}`,
    protocol: `http://mainframe.${domain}:${other.port}`,
    blocked: `http://${privateName}`,
  };
  return {
    settings: {
      LEAT_DNS_SERVERS: dns.servers.join(','),
      LEAT_EGRESS_ALLOW: '127.0.0.0/8',
      LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
    },
    url: (behaviour, path) => origins[behaviour] + path,
    repair: (path) => void repaired.add(path),
    count: (path) => counts.get(path) ?? 0,
    close: async () => {
      const rest = [silent, secure, resetting, other, dns].map((server) => server.close());
      await Promise.all([http.close(), ...rest]);
    },
  };
}

function readEvent(body: string): ReceivedEvent {
  try {
    return JSON.parse(body) as ReceivedEvent;
  } catch {
    // A request for an access token is a form.
    return { type: '', data: {} };
  }
}

/** Keeps no request, unlike the endpoints of other tests: it may run for hours. */
async function startHttp(
  answerTo: (path: string, body: string) => Answer,
): Promise<{ port: number; close(): Promise<void> }> {
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { status, text = '' } = answerTo(request.url ?? '', Buffer.concat(chunks).toString());
      const type = text.startsWith('{') ? 'application/json' : 'text/plain; charset=utf-8';
      response.writeHead(status, text === '' ? {} : { 'content-type': type }).end(text);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
