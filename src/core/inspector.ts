import type { AttemptResult } from './retry.ts';
import type { Millis } from './clock.ts';
import type { StreamRef } from './types.ts';

/**
 * The inspector: a receiver in the memory of the node that sends for a stream. Its endpoints have the
 * host `<stream id>.inspector.invalid`, which no name server knows (RFC 6761 section 6.4), and no
 * request to it leaves the process (docs/http-api.md#inspector).
 */
const domain = 'inspector.invalid';

/** The endpoint of the inspector in a request that creates a stream. */
export const newInspectorEndpoint = `https://new.${domain}/`;

/** Returns the endpoint of a stream's inspector. */
export function inspectorEndpointOf(stream: string): string {
  return `https://${stream}.${domain}/`;
}

/**
 * Returns whose inspector an endpoint is: the id of a stream in lower case, or `new`; `undefined` for
 * any other endpoint. A text without a name before the domain is the inspector of nobody: ''.
 */
export function inspectedBy(endpoint: string): string | undefined {
  const host = URL.parse(endpoint)?.hostname.replace(/\.$/, '');
  if (host === domain) return '';
  return host?.endsWith(`.${domain}`) === true ? host.slice(0, -domain.length - 1) : undefined;
}

/** Returns whether requests to an origin, as `URL.origin` gives it, are for the inspector. */
export function isInspectorOrigin(origin: string): boolean {
  return origin.endsWith(`.${domain}`);
}

/** Returns whether an origin is the inspector of this stream. */
export function isInspectorOf(origin: string, stream: string): boolean {
  return origin === `https://${stream.toLowerCase()}.${domain}`;
}

/** A request that an inspector received. */
export interface InspectedRequest {
  readonly receivedAt: Millis;
  /** Path and query. */
  readonly path: string;
  /** Name, value, name, value, …; the value of the authorization is `***`. */
  readonly headers: readonly string[];
  readonly body: string;
  /** The result of the attempt; `undefined` while it is under way. */
  readonly result: AttemptResult | undefined;
}

/** How an inspector responds to the next requests. */
export interface InspectorAnswer {
  readonly status: number;
  /** Time until the response. */
  readonly delayMs: number;
  /** Number of requests; the response to later ones is {@link usualAnswer}. */
  readonly times: number;
}

/** The response without an {@link InspectorAnswer}. */
export const usualAnswer = { status: 204, delayMs: 0 } as const;

/** What the memory of this node has of the inspectors of streams. */
export interface InspectorMemory {
  /** Returns whether there is anything in memory for a stream. */
  has(stream: StreamRef): boolean;
  /** Returns the requests of a stream, newest first, and the answer to its next ones. */
  read(stream: StreamRef): {
    readonly requests: readonly InspectedRequest[];
    readonly answer: InspectorAnswer | undefined;
  };
  /** Sets the answer to the next requests. */
  setAnswer(stream: StreamRef, answer: InspectorAnswer): void;
}
