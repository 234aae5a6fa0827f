import type { LookupFunction } from 'node:net';
import { Agent, fetch as fetchBy } from 'undici';

/** A `fetch` that ends with its owner. */
export interface OwnFetch {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Ends its connections. */
  close(): Promise<void>;
}

/**
 * A `fetch` that finds addresses by `lookup`. The platform's own one uses getaddrinfo, and takes a
 * thread that others need (hashing, files) for as long as a name server is silent.
 */
export function createFetch(lookup: LookupFunction): OwnFetch {
  const dispatcher = new Agent({ connect: { lookup } });
  // The platform's fetch is of the same library, under other names of the types.
  const fetch = fetchBy as unknown as (
    url: string,
    init: Omit<RequestInit, 'dispatcher'> & { readonly dispatcher: Agent },
  ) => Promise<Response>;
  return {
    fetch: (url, init) => fetch(url, { ...init, dispatcher }),
    close: () => dispatcher.destroy(),
  };
}
