import type { IncomingMessage } from 'node:http';

/** What the checks of a caller read of a request. */
export type CheckedRequest = Pick<IncomingMessage, 'method' | 'headers' | 'rawHeaders' | 'socket'>;

/** The response that is being prepared: Fastify's, or one of the fast path. */
export interface HeaderSink {
  /** Sets headers; their names are in lower case. */
  headers(values: Readonly<Record<string, string>>): unknown;
}
