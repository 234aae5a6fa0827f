/**
 * The headers of every HTML page (docs/http-api.md#html-headers). Nothing comes from elsewhere, no frame holds
 * the page, no form leaves it; the browser keeps to https where it came by https.
 */
export function htmlHeaders(context: {
  /** Whether the request came over TLS. A browser ignores the header elsewhere, RFC 6797 8.1. */
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
 * A browser keeps to https for a host whatever the port. On `localhost` other programs live beside
 * Leat, most without TLS: five minutes there, a year elsewhere.
 */
function hsts(host: string): string {
  return /^(?:.+\.)?localhost(?::\d+)?$/i.test(host) ? 'max-age=300' : 'max-age=31536000';
}
