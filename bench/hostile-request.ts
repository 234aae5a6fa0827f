/** A whole HTTP/1.1 request. */
export type Request = Buffer;

export interface Host {
  readonly port: number;
  readonly token: string;
  /** The host that a trusted proxy names. */
  readonly forwarded: string;
}

/** Returns the bytes of a request to the management API. */
export function rawRequest(host: Host, method: string, path: string, body?: string): Request {
  const length = body === undefined ? 0 : Buffer.byteLength(body);
  const type =
    body === undefined ? '' : `content-type: application/json\r\ncontent-length: ${length}\r\n`;
  return Buffer.from(
    `${method} /api/v2${path} HTTP/1.1\r\nhost: localhost:${host.port}\r\n` +
      `x-forwarded-host: ${host.forwarded}\r\nx-forwarded-proto: https\r\n` +
      `authorization: Bearer ${host.token}\r\n${type}\r\n${body ?? ''}`,
  );
}
