import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Metrics } from './metrics.ts';

export interface MetricsServerDeps {
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>;
  /** Hears why a text could not be made; it is asked for again. */
  readonly report: (error: unknown) => void;
}

/** A listener that serves `/metrics` and nothing else. */
export interface MetricsServer {
  /** Ends at once: a scrape that is cut off is made again. */
  close(): Promise<void>;
}

/** A few that scrape, and a stranger cannot hold their connections open. */
const bounds = {
  maxHeaderSize: 16_384,
  headersTimeout: 16_000,
  requestTimeout: 30_000,
  keepAliveTimeout: 72_000,
  connectionsCheckingInterval: 2_000,
};
const connectionsMax = 100;

/** Listens. Rejects with the error of the system when it cannot. */
export async function openMetricsServer(
  deps: MetricsServerDeps,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<MetricsServer> {
  const text = sharedText(deps.metrics);
  const server = createServer(bounds, (request, response) => {
    void answer(request, response, { ...deps, text });
  });
  server.maxConnections = connectionsMax;
  server.listen(port, host);
  await once(server, 'listening');
  // A connection that the system would not hand over: the next one may come through.
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

/** Requests that come while a text is being made share it: more of them cost no more. */
function sharedText({ text }: MetricsServerDeps['metrics']): () => Promise<string> {
  let pending: Promise<string> | undefined;
  const make = async (): Promise<string> => {
    try {
      return await text();
    } finally {
      pending = undefined;
    }
  };
  return () => (pending ??= make());
}

async function answer(
  { url = '', method = '' }: IncomingMessage,
  response: ServerResponse,
  { metrics, text, report }: MetricsServerDeps & { readonly text: () => Promise<string> },
): Promise<void> {
  const refuse = (status: number, words: string): void => {
    // What else was sent of the request is not waited for.
    response.writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      connection: 'close',
    });
    response.end(`${words}\n`);
  };
  if (url.replace(/\?.*$/s, '') !== '/metrics') return refuse(404, 'Not found: /metrics is all.');
  if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    return refuse(405, 'Only GET and HEAD are allowed.');
  }
  try {
    const body = Buffer.from(await text());
    response.writeHead(200, {
      'content-type': metrics.contentType,
      'content-length': body.length,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    response.end(method === 'HEAD' ? undefined : body);
  } catch (error) {
    report(error);
    refuse(500, 'The metrics could not be made.');
  }
}
