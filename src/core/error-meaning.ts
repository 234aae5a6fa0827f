import type { ErrorCode } from './error-code.ts';

/** Returns one sentence about what failures with this code mean. */
export function meaningOf(code: ErrorCode): string {
  const status = /^http_(?<status>[0-9]{3})$/.exec(code)?.groups?.['status'];
  if (status !== undefined) return statusMeaning(Number(status));
  return meanings[code as keyof typeof meanings];
}

const meanings: Readonly<Record<Exclude<ErrorCode, `http_${number}`>, string>> = {
  timeout: 'The receiver sent no complete response in time.',
  dns: 'The host name of the endpoint could not be resolved.',
  refused: 'Nothing accepts connections at the address of the endpoint.',
  reset: 'The connection closed before the response was complete.',
  tls: 'No TLS connection: the certificate or the protocol version of one side is rejected.',
  protocol: 'The response was not valid HTTP.',
  blocked_address: 'The endpoint has an address that Leat does not send to, see LEAT_EGRESS_ALLOW.',
  authorization: 'The authorization server issued no access token for the endpoint.',
  stream_disabled: 'The event stream was disabled, and events failed without an attempt.',
};

function statusMeaning(status: number): string {
  const exact = statusMeanings[status];
  if (exact !== undefined) return exact;
  if (status < 400)
    return 'The endpoint does not accept the event, and redirects are not followed.';
  if (status < 500) return 'The receiver rejects the request.';
  return 'The receiver failed while it processed the event.';
}

const statusMeanings: Readonly<Record<number, string>> = {
  401: 'The receiver rejects the authorization of the stream.',
  403: 'The receiver rejects the authorization of the stream.',
  404: 'The receiver knows no such endpoint.',
  410: 'The receiver has removed the endpoint.',
  413: 'The event is too large for the receiver.',
  429: 'The receiver limits the rate of requests.',
  502: 'A proxy in front of the receiver got no valid response from it.',
  503: 'The receiver is overloaded or unavailable.',
  504: 'A proxy in front of the receiver got no response from it in time.',
};

/** Returns one sentence about who can end failures with this code, and how. */
export function remedyOf(code: ErrorCode): string {
  const status = /^http_(?<status>[0-9]{3})$/.exec(code)?.groups?.['status'];
  if (status !== undefined) return statusRemedy(Number(status));
  return remedies[code as keyof typeof remedies];
}

const receivers = "The receiver's operator must act";
const owners = "The stream's owner must act";

const remedies: Readonly<Record<Exclude<ErrorCode, `http_${number}`>, string>> = {
  timeout: `${receivers}: respond first, process later; or raise the timeout of this stream.`,
  dns: `${owners}: correct the host name of the endpoint, or restore its DNS record.`,
  refused: `${receivers}: start it, or open its port.`,
  reset: `${receivers}: see its log and that of its proxy at these times.`,
  tls: `${receivers}: renew the certificate, or offer TLS 1.2 or later.`,
  protocol: `${receivers}: let an HTTP server respond at this port.`,
  blocked_address: 'The operator of Leat must act: allow the address, or choose another endpoint.',
  authorization: `${owners}: correct the client at the authorization server.`,
  stream_disabled: `${owners}: enable it when its receiver works again, then redeliver.`,
};

function statusRemedy(status: number): string {
  if (status === 401 || status === 403) return `${owners}: correct its authorization.`;
  if (status === 404 || status === 410) return `${owners}: correct the endpoint.`;
  if (status === 413) return `${receivers}: accept larger bodies.`;
  if (status === 429) return `${owners}: limit its rate below that of the receiver.`;
  if (status < 400) return `${owners}: enter the address that the redirect leads to.`;
  if (status < 500)
    return `${receivers}: its response says what it rejects. A filter can keep such events away.`;
  return `${receivers}: see its log at these times. Redeliver when it works again.`;
}
