import type { LookupFunction, Socket } from 'node:net';
import type { Client } from 'undici';
import type { Clock } from '../../core/clock.ts';
import type { ClientCredentials } from '../../core/types.ts';
import { basicOf } from './basic.ts';
import { createConnect, type Connected, type ConnectTarget } from './connect.ts';
import type { BlockedFound, EgressRule } from './egress.ts';
import { acceptInterimResponses } from './interim-responses.ts';
import { lookupFunction } from './lookup-function.ts';
import type { NameLookups } from './name-lookups.ts';
import { readTokenResponse, type TokenResponse } from './token-response.ts';
import { classifyTransportError, type Phase, shortageOf } from './transport-error.ts';

/** Fetches access tokens for tenants, from endpoints that are not trusted. */
export interface TokenEndpoints {
  /** Fetches a token; never rejects and ends in time. */
  fetch(tenant: number, credentials: ClientCredentials): Promise<TokenResponse>;
  /** Cuts off every fetch. */
  close(): void;
}

export interface TokenEndpointsDeps {
  readonly clock: Pick<Clock, 'after'>;
  readonly egress: EgressRule;
  readonly blockedFound?: BlockedFound | undefined;
  readonly names: Pick<NameLookups, 'prepare' | 'usable' | 'find'>;
  readonly limits: TokenEndpointLimits;
  readonly tls?: {
    /** Trusted instead of the authorities of Node. */
    readonly ca?: string | undefined;
  };
}

export interface TokenEndpointLimits {
  /** For one fetch, from the start of its name lookup to the end of the response. */
  readonly timeoutMs: number;
  /** Of a response's body. */
  readonly bodyBytesMax: number;
}

/**
 * Creates it. A fetch has a connection of its own, made like those of webhooks: the address is
 * checked when it connects, and redirects are responses like any other.
 */
export function createTokenEndpoints(deps: TokenEndpointsDeps): TokenEndpoints {
  const { clock, names, limits } = deps;
  const connect = createConnect(deps);
  const underWay = new Set<Fetch>();
  let isClosed = false;
  return {
    fetch: async (tenant, credentials) => {
      if (isClosed) return timedOut;
      const fetch = new Fetch(connect, lookupFunction(names, tenant), limits.bodyBytesMax);
      underWay.add(fetch);
      const timer = clock.after(limits.timeoutMs, () => fetch.cutOff());
      try {
        return await fetch.run(credentials);
      } finally {
        timer.cancel();
        underWay.delete(fetch);
      }
    },
    close: () => {
      isClosed = true;
      for (const fetch of underWay) fetch.cutOff();
    },
  };
}

/** A body in chunks of one byte is six times as long on the wire. */
const wireFactorMax = 16;

/** Of a response; more is a protocol error. */
const headerBytesMax = 16_384;

class Fetch {
  readonly #connect: ReturnType<typeof createConnect>;
  readonly #lookup: LookupFunction;
  readonly #bodyBytesMax: number;
  readonly #cut = new AbortController();
  #phase: Phase = 'connecting';
  #socket: Socket | undefined;
  /** The first error of the socket: later ones follow from it. */
  #error: Error | undefined;

  constructor(
    connect: ReturnType<typeof createConnect>,
    lookup: LookupFunction,
    bodyBytesMax: number,
  ) {
    this.#connect = connect;
    this.#lookup = lookup;
    this.#bodyBytesMax = bodyBytesMax;
  }

  cutOff(): void {
    this.#cut.abort();
    this.#socket?.destroy();
  }

  async run(credentials: ClientCredentials): Promise<TokenResponse> {
    const { signal } = this.#cut;
    const aborted = new Promise<TokenResponse>((resolve) => {
      signal.addEventListener('abort', () => resolve(timedOut), { once: true });
    });
    // A socket whose name is being looked up ends with its lookup only.
    return Promise.race([aborted, this.#request(credentials)]);
  }

  async #request(credentials: ClientCredentials): Promise<TokenResponse> {
    let client: Client | undefined;
    try {
      const { origin, pathname, search } = new URL(credentials.tokenEndpoint);
      client = await this.#open(origin);
      const { statusCode, body } = await client.request({
        path: `${pathname}${search}`,
        method: 'POST',
        headers: headersOf(credentials),
        body: formOf(credentials),
        signal: this.#cut.signal,
      });
      this.#phase = 'receiving';
      const text = await this.#textOf(body);
      return text === undefined ? tooLong : readTokenResponse(statusCode, text);
    } catch (thrown) {
      if (this.#cut.signal.aborted) return timedOut;
      const error = this.#error ?? thrown;
      const shortage = shortageOf(error);
      if (shortage !== undefined) {
        return { kind: 'failed', detail: `token endpoint: ${shortage.code}`, shortage };
      }
      const { cause, detail } = classifyTransportError(error, this.#phase);
      const reason = detail === undefined ? cause : `${cause}: ${detail}`;
      return { kind: 'failed', detail: `token endpoint: ${reason}` };
    } finally {
      this.#socket?.destroy();
      void client?.destroy();
    }
  }

  async #open(origin: string): Promise<Client> {
    // Not at the start of the service, of which it takes a twentieth.
    const { Client: HttpClient } = await import('undici');
    return new HttpClient(origin, {
      connect: (target: ConnectTarget, connected: Connected) => {
        const socket = this.#connect(target, this.#lookup, connected);
        this.#socket = socket;
        socket.once('error', (error) => (this.#error = error));
        acceptInterimResponses(socket);
        socket.once('connect', () => (this.#phase = 'securing'));
        // Also interim responses and chunk framing, which the parser accepts without limit.
        socket.on('readable', () => {
          if (socket.bytesRead > this.#bodyBytesMax * wireFactorMax) socket.destroy();
        });
        socket.once(target.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
          this.#phase = 'sent';
        });
      },
      pipelining: 1,
      maxHeaderSize: headerBytesMax,
      // The timeout covers the fetch.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Returns the body; `undefined` when it is too long. */
  async #textOf(body: AsyncIterable<Uint8Array>): Promise<string | undefined> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.byteLength;
      if (bytes > this.#bodyBytesMax) return undefined;
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString('utf8');
  }
}

const timedOut: TokenResponse = { kind: 'failed', detail: 'token endpoint: timeout' };
const tooLong: TokenResponse = { kind: 'failed', detail: 'token response: too long' };

function headersOf(credentials: ClientCredentials): Record<string, string> {
  return {
    authorization: `Basic ${basicOf(credentials)}`,
    'content-type': 'application/x-www-form-urlencoded',
    accept: 'application/json',
    'user-agent': 'Leat',
  };
}

/** Returns the request of RFC 6749 section 4.4.2; `audience` is what many servers know besides. */
function formOf({ scope, audience }: ClientCredentials): string {
  const form = new URLSearchParams({ grant_type: 'client_credentials' });
  if (scope !== undefined) form.set('scope', scope);
  if (audience !== undefined) form.set('audience', audience);
  return form.toString();
}
