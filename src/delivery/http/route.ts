import type { TokenOwner } from './access-tokens.ts';
import type { ClientIdentity } from './connect.ts';

/** What the requests of a stream need besides a connection. */
export interface RequestNeeds {
  /** Whose access tokens authorize them. */
  readonly token?: TokenOwner | undefined;
  /** Shown to the receiver in TLS; connections are shared only where it is the same. */
  readonly identity?: ClientIdentity | undefined;
}

/** Returns the route of requests to an origin: those with an identity have connections of their own. */
export function routeOf(origin: string, needs: RequestNeeds | undefined): string {
  const identity = needs?.identity;
  return identity === undefined ? origin : `${origin} ${identity.id}`;
}
