import type { Server, ServerOptions } from 'node:http';

/** Limit of the request line and headers, and so of every path parameter. */
const headerBytesMax = 16_384;

const http: ServerOptions = {
  maxHeaderSize: headerBytesMax,
  // Node's own check would respond without a body.
  requireHostHeader: false,
  /** From the connection or the first byte of a request to the end of its headers. */
  headersTimeout: 16_000,
  /** Both timeouts take effect at most this much later. */
  connectionsCheckingInterval: 2_000,
};

/** Limits of the HTTP server. */
export const serverLimits = {
  http,
  /**
   * From the first byte of a request to the last byte of its body; the response does not count.
   */
  requestTimeout: 30_000,
  /** Timeout of a connection without traffic, unless it is idle: LEAT_KEEP_ALIVE_SECONDS. */
  connectionTimeout: 120_000,
  routerOptions: {
    maxParamLength: headerBytesMax,
    // Operations take the query from the URL, see `queryOf`.
    querystringParser: (): Record<string, never> => ({}),
  },
};

/**
 * Leaves `Expect` to the app: a client must not send its body before it is authorized, and Node's own
 * 417 has no body.
 */
export function serveExpectations(server: Server): void {
  for (const event of ['checkContinue', 'checkExpectation']) {
    server.on(event, (request, response) => server.emit('request', request, response));
  }
}
