import type { MessageRequest } from './messages.ts';

/** Limit of the request line and headers, as in Node's HTTP server. */
const HEAD_BYTES_MAX = 16 * 1024;

/**
 * A plain request: a narrow subset of RFC 9112 sections 2 to 5. Origin form, visible ASCII and single
 * blanks only, no line folding, `Host` first and once, a name or an IPv4 address, at most one
 * `Authorization`, and no header that changes how a request or its connection is parsed. The
 * alternatives exclude each other, so that the expression does not backtrack.
 */
const PLAIN = ((): RegExp => {
  const host = String.raw`[\w-]+(?:\.[\w-]+)*\.?(?::\d+)?`;
  const value = String.raw`[\x21-\x7E][\x20-\x7E]*`;
  const special = [
    'host|authorization|content-length|transfer-encoding|te|trailer|expect|upgrade|keep-alive',
    String.raw`proxy-connection|http2-settings|connection(?!: ?keep-alive\r)`,
  ].join('|');
  const other = String.raw`(?!(?i:${special}):)[\w!#$%&'*+.^\x60|~-]+: ?${value}\r\n`;
  return new RegExp(
    String.raw`^GET (?<target>\/[\x21-\x7E]*) HTTP\/1\.1\r\n` +
      String.raw`(?i:host): ?${host}\r\n(?:${other})*` +
      String.raw`(?:(?i:authorization): ?(?<authorization>${value})\r\n(?:${other})*)?\r\n$`,
  );
})();

/** Parses a well-formed GET without a body, whole and alone; returns `undefined` for any other bytes. */
export function parsePlainRequest(chunk: Buffer): MessageRequest | undefined {
  if (chunk.length > HEAD_BYTES_MAX) return undefined;
  const match = PLAIN.exec(chunk.toString('latin1'));
  const [, target, authorization] = match ?? [];
  if (target === undefined) return undefined;
  const authorizations = authorization === undefined ? none : [authorization];
  return { method: 'GET', target, authorizations };
}

const none: readonly string[] = [];
