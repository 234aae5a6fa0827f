import { parseAddress } from './address.ts';

/**
 * Rules of RFC 9112 for the head of a request that Node's parser does not enforce. A server and a proxy
 * that read one head differently can take different bytes for the next request, or choose different
 * hosts.
 */

/** The head of a request, as the parser returns it. */
export interface RequestHead {
  /** `1.1`. */
  readonly httpVersion: string;
  /** Names and values alternating, as sent. */
  readonly rawHeaders: readonly string[];
  /** The request target as sent. */
  readonly target: string;
}

/**
 * Returns the status of the response to a head that must not be served; `undefined` for any other. The
 * connection ends after that response.
 */
export function statusOfHead(head: RequestHead): 400 | 501 | 505 | undefined {
  const { httpVersion, target } = head;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return 505;
  const hosts = valuesOf(head, 'host');
  // RFC 9112 section 3.2.
  if (hosts.length > 1 || (hosts.length === 0 && httpVersion === '1.1')) return 400;
  if (!hosts.every(isHost) || !isTarget(target)) return 400;
  return statusOfCodings(httpVersion, valuesOf(head, 'transfer-encoding'));
}

/**
 * Returns the value of a header, those of a repeated one joined as in RFC 9110 section 5.3; `undefined`
 * without one. Node keeps the first one of some headers. The name is in lower case.
 */
export function headerOf(head: Pick<RequestHead, 'rawHeaders'>, name: string): string | undefined {
  const values = valuesOf(head, name);
  return values.length > 1 ? values.join(', ') : values[0];
}

/** The parts of a request target. */
export interface TargetParts {
  /** `host[:port]` of the absolute form (RFC 9112 section 3.2.2), which replaces the header `Host`. */
  readonly authority: string | undefined;
  /** Path and query, or `*`. */
  readonly path: string;
}

function isTarget(target: string): boolean {
  return target.startsWith('/') || partsOfTarget(target) !== undefined;
}

/** Returns the parts of a target in origin, absolute or asterisk form; `undefined` for any other. */
export function partsOfTarget(target: string): TargetParts | undefined {
  if (target.startsWith('/') || target === '*') return { authority: undefined, path: target };
  const { authority, path = '' } = ABSOLUTE.exec(target)?.groups ?? {};
  // RFC 9110 section 4.2: no empty host and no user information.
  if (authority === undefined || !isHost(authority)) return undefined;
  return { authority, path: path.startsWith('/') ? path : `/${path}` };
}

const ABSOLUTE = /^https?:\/\/(?<authority>[^/?#]*)(?<path>[/?].*)?$/is;

/**
 * Returns whether a text is `host[:port]` without user information (RFC 3986 section 3.2). The host of an
 * http URL is not empty (RFC 9110 section 4.2.1), nor is a label of its name, but for a dot at the end.
 */
function isHost(text: string): boolean {
  const match = HOST.exec(text);
  const address = match?.groups?.['address'];
  return match !== null && (address === undefined || parseAddress(address)?.length === 16);
}

const LABEL = String.raw`(?:[\w~!$&'()*+,;=-]|%[0-9a-f]{2})+`;
const HOST = new RegExp(
  String.raw`^(?:\[(?<address>[0-9a-f:.]+)\]|${LABEL}(?:\.${LABEL})*\.?)(?::[0-9]*)?$`,
  'i',
);

/** RFC 9112 sections 6.1 and 6.3: the only known coding is `chunked`, and HTTP/1.0 has none. */
function statusOfCodings(httpVersion: string, headers: readonly string[]): 400 | 501 | undefined {
  if (headers.length === 0) return undefined;
  const codings = headers.join(',').toLowerCase().split(',');
  if (httpVersion === '1.0' || codings.at(-1)?.trim() !== 'chunked') return 400;
  return codings.length === 1 ? undefined : 501;
}

function valuesOf(
  { rawHeaders }: Pick<RequestHead, 'rawHeaders'>,
  name: string,
): readonly string[] {
  let values: string[] | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const found = rawHeaders[index];
    // Most names differ in length already.
    if (found?.length !== name.length || found.toLowerCase() !== name) continue;
    (values ??= []).push(rawHeaders[index + 1] ?? '');
  }
  return values ?? none;
}

const none: readonly string[] = [];
