import type { IncomingMessage } from 'node:http';
import { Problem, quoted } from './http/problem.ts';

/** The origin that a request was sent to. */
export interface OwnOrigin {
  readonly isSecure: boolean;
  /** `host[:port]` as sent. */
  readonly host: string;
}

/**
 * Returns the 403 of a request with the cookie of a console session that may come from another site;
 * `undefined` for a request of the console itself (docs/http-api.md#console-sessions). `SameSite` alone
 * is not enough: other ports and sister domains are the same site.
 */
export function foreignOriginProblem(
  { method, headers }: Pick<IncomingMessage, 'method' | 'headers'>,
  own: OwnOrigin,
): Problem | undefined {
  const fetchedFrom = headers['sec-fetch-site']?.toString();
  if (fetchedFrom !== undefined) {
    if (fetchedFrom !== 'same-origin') {
      return refused(
        `Sec-Fetch-Site is '${quoted(fetchedFrom)}', and only same-origin is accepted`,
      );
    }
  } else if (headers.origin === undefined) {
    return refused('it has neither Sec-Fetch-Site: same-origin nor an Origin');
  } else if (headers.origin !== originOf(own)) {
    return refused(`Origin is '${quoted(headers.origin)}', and only ${originOf(own)} is accepted`);
  }
  // A form cannot send a header, and a script of another origin needs a preflight, which fails.
  const isRead = method === 'GET' || method === 'HEAD';
  if (isRead || headers['leat-console'] === '1') return undefined;
  return refused('a request that is not GET or HEAD needs the header Leat-Console: 1');
}

function refused(reason: string): Problem {
  const message = `The session of the console is for requests of its own pages: ${reason}.`;
  return new Problem(403, message, 'cross_site_request');
}

/** Returns an origin as browsers send it: in lower case and without the default port. */
function originOf({ isSecure, host }: OwnOrigin): string {
  const bare = host.toLowerCase().replace(isSecure ? /:443$/ : /:80$/, '');
  return `${isSecure ? 'https' : 'http'}://${bare}`;
}
