import type { LookupFunction } from 'node:net';
import type { Agent, buildConnector } from 'undici';
import { patientConnect } from '../../core/address.ts';
import { withInterimResponses } from './interim-responses.ts';

/** What is used of undici. */
interface Undici {
  readonly Agent: typeof Agent;
  readonly buildConnector: typeof buildConnector;
}

/** A `fetch` with connections of its own. */
export interface OwnFetch {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Ends its connections. */
  close(): Promise<void>;
}

/**
 * Creates a `fetch` that resolves names by `lookup`. The one of the platform uses getaddrinfo,
 * which blocks one of the threads for hashing and files as long as a name server does not respond.
 */
export function createFetch(lookup: LookupFunction): OwnFetch {
  let dispatcher: Agent | undefined;
  let isClosed = false;
  return {
    fetch: async (url, init) => {
      // Not at the start of the service, of which it takes a twentieth.
      const undici = await import('undici');
      if (isClosed) throw new Error('The service is closing.');
      dispatcher ??= agentOf(undici, lookup);
      // The fetch of the platform is from the same library, with other names of the types.
      const fetch = undici.fetch as unknown as (
        url: string,
        init: Omit<RequestInit, 'dispatcher'> & { readonly dispatcher: Agent },
      ) => Promise<Response>;
      return fetch(url, { ...init, dispatcher });
    },
    close: async () => {
      isClosed = true;
      await dispatcher?.destroy();
    },
  };
}

function agentOf(undici: Undici, lookup: LookupFunction): Agent {
  // Overrides NODE_TLS_REJECT_UNAUTHORIZED: key sets of trusted issuers come this way.
  const own = { ...patientConnect(), lookup, rejectUnauthorized: true, allowH2: false };
  const connect = withInterimResponses(undici.buildConnector(own));
  // Each request has a connection of its own.
  return new undici.Agent({ connect, pipelining: 0 });
}
