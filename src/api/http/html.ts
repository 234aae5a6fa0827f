/**
 * Returns the headers of an HTML page (docs/http-api.md#html-headers): no foreign resources, no frames,
 * no foreign form targets; HTTPS stays HTTPS.
 */
export function htmlHeaders(context: {
  /** Whether the request came over TLS: browsers ignore HSTS elsewhere (RFC 6797 section 8.1). */
  readonly secure: boolean;
  /** `host[:port]` as sent. */
  readonly host: string;
}): Record<string, string> {
  return context.secure ? { ...headers, 'strict-transport-security': hsts(context.host) } : headers;
}

const headers = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
};

/**
 * Returns the HSTS policy: a year; five minutes for `localhost`. HSTS ignores the port, and other
 * programs on `localhost` mostly have no TLS.
 */
function hsts(host: string): string {
  return /^(?:.+\.)?localhost(?::\d+)?$/i.test(host) ? 'max-age=300' : 'max-age=31536000';
}
