import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import {
  type BrokenStatus,
  createBrokenRequestListener,
  endTunnels,
} from '../api/http/last-response.ts';
import { guardRequests } from '../api/http/request-guard.ts';
import type { Clock } from '../core/clock.ts';
import { partsOfTarget, statusOfHead } from '../core/request-head.ts';
import type { Metrics } from './metrics.ts';

export interface MetricsServerDeps {
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>;
  /** Receives why a text could not be created; Prometheus repeats the scrape. */
  readonly report: (error: unknown) => void;
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
}

/** An HTTP server that serves only `/metrics`. */
export interface MetricsServer {
  /**
   * Interrupts scrapes, which Prometheus repeats. A rejected CONNECT whose peer keeps its side open takes
   * two seconds more.
   */
  close(): Promise<void>;
}

/** For a few scrapers; an unauthenticated peer cannot hold a connection open. */
const serverLimits = {
  maxHeaderSize: 16_384,
  headersTimeout: 16_000,
  requestTimeout: 30_000,
  keepAliveTimeout: 72_000,
  connectionsCheckingInterval: 2_000,
};
const connectionsMax = 100;
/** A connection without traffic, for example because the responses are not read, is closed. */
const idleMs = 80_000;

/** Starts to listen. Rejects with the error of the system when that fails. */
export async function openMetricsServer(
  deps: MetricsServerDeps,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<MetricsServer> {
  const body = sharedBody(deps.metrics);
  const server = createServer(serverLimits, (request, response) => {
    void respond(request, response, { ...deps, body });
  });
  server.setTimeout(idleMs);
  server.maxConnections = connectionsMax;
  server.on('clientError', createBrokenRequestListener(brokenRejection, deps));
  endTunnels(server, () => tunnelRejection, deps);
  // Before a response is read, one connection could request any number of them.
  guardRequests(server, { clock: deps.clock, reject: () => {} });
  server.listen(port, host);
  await once(server, 'listening');
  // The system failed to accept a connection; the next one may succeed.
  server.on('error', deps.report);
  return {
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

const tunnelRejection =
  'HTTP/1.1 405 Method Not Allowed\r\nallow: GET, HEAD\r\ncontent-length: 0\r\nconnection: close\r\n\r\n';

function brokenRejection(status: BrokenStatus): string {
  const line = `${status} ${STATUS_CODES[status]}`;
  return `HTTP/1.1 ${line}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`;
}

/** Concurrent requests share one body, so that many of them cost no more. */
function sharedBody({ text }: MetricsServerDeps['metrics']): () => Promise<Buffer> {
  let pending: Promise<Buffer> | undefined;
  const make = async (): Promise<Buffer> => {
    try {
      return Buffer.from(await text());
    } finally {
      pending = undefined;
    }
  };
  return () => (pending ??= make());
}

async function respond(
  { url: target = '', method = '', httpVersion, rawHeaders }: IncomingMessage,
  response: ServerResponse,
  deps: MetricsServerDeps & { readonly body: () => Promise<Buffer> },
): Promise<void> {
  const reject = (status: number, message: string): void => {
    // The rest of the request is not read.
    response.writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      connection: 'close',
    });
    response.end(`${message}\n`);
  };
  const invalid = statusOfHead({ httpVersion, rawHeaders, target });
  if (invalid !== undefined) return reject(invalid, `${STATUS_CODES[invalid]}.`);
  const path = partsOfTarget(target)?.path.replace(/\?.*$/s, '');
  if (path !== '/metrics') return reject(404, 'Not found: /metrics is all.');
  if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    return reject(405, 'Only GET and HEAD are allowed.');
  }
  try {
    const body = await deps.body();
    response.writeHead(200, {
      'content-type': deps.metrics.contentType,
      'content-length': body.length,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    response.end(method === 'HEAD' ? undefined : body);
  } catch (error) {
    deps.report(error);
    reject(500, 'The metrics could not be made.');
  }
}
