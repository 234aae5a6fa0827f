/** A POST of JSON that arrived whole and alone. */
export interface PlainPost {
  /** Value of the header `Host`. */
  readonly host: string;
  /** Value of the header `Authorization`. */
  readonly authorization: string;
  /** Value of the header `traceparent`, if it was sent. */
  readonly traceparent: string | undefined;
  /** Value of the header `tracestate`, if it was sent. */
  readonly tracestate: string | undefined;
  readonly body: Buffer;
}

/** Above some 1,600 headers Node ignores the rest; so many do not fit in here. */
const headBytesMax = 8 * 1024;

/**
 * Creates the parser of a plain POST to a path: a narrow subset of RFC 9112 sections 2 to 6. Visible ASCII
 * and single blanks only, no line folding, `Host` first, each of `Host`, `Authorization`, `Content-Type` and
 * `Content-Length` once, the length that of the rest, and no header that changes how a request, its body, its
 * caller or its connection is read. The parser returns `undefined` for any other bytes.
 */
export function createPlainPostParser(
  path: string,
  bodyBytesMax: number,
): (chunk: Buffer) => PlainPost | undefined {
  const requestLine = `POST ${path} HTTP/1.1\r\n`;
  return (chunk) => {
    const end = chunk.indexOf('\r\n\r\n', 0, 'latin1') + headEnd.length;
    const bodyBytes = chunk.length - end;
    if (end < headEnd.length || end > headBytesMax) return undefined;
    if (bodyBytes < 1 || bodyBytes > bodyBytesMax) return undefined;
    const head = chunk.toString('latin1', 0, end);
    if (!head.startsWith(requestLine)) return undefined;
    const headers = headersOf(head, requestLine.length);
    const { host, authorization, type, length, traceparent, tracestate } = headers ?? {};
    if (host === undefined || authorization === undefined || type === undefined) return undefined;
    if (length !== String(bodyBytes)) return undefined;
    return { host, authorization, traceparent, tracestate, body: chunk.subarray(end) };
  };
}

const headEnd = '\r\n\r\n';

interface PlainHeaders {
  host?: string;
  authorization?: string;
  type?: string;
  length?: string;
  traceparent?: string;
  tracestate?: string;
}

/** Returns the headers that count; `undefined` unless all are plain. */
function headersOf(head: string, start: number): PlainHeaders | undefined {
  const headers: PlainHeaders = {};
  const end = head.length - '\r\n'.length;
  line.lastIndex = start;
  for (let at = start; at < end; at = line.lastIndex) {
    const [, name = '', value = ''] = line.exec(head) ?? [];
    if (!take(headers, name.toLowerCase(), value)) return undefined;
    if (headers.host === undefined) return undefined;
  }
  return headers;
}

/** Takes a header that counts, once; false for one that is not plain. */
function take(headers: PlainHeaders, name: string, value: string): boolean {
  switch (name) {
    case 'host':
      if (headers.host !== undefined || !plainHost.test(value)) return false;
      headers.host = value;
      return true;
    case 'authorization':
      if (headers.authorization !== undefined) return false;
      headers.authorization = value;
      return true;
    case 'content-type':
      if (headers.type !== undefined || !plainType.test(value)) return false;
      headers.type = value;
      return true;
    case 'content-length':
      if (headers.length !== undefined) return false;
      headers.length = value;
      return true;
    case 'traceparent':
      if (headers.traceparent !== undefined) return false;
      headers.traceparent = value;
      return true;
    case 'tracestate':
      // Several are one list (W3C Trace Context section 3.3.1), which Node joins.
      if (headers.tracestate !== undefined) return false;
      headers.tracestate = value;
      return true;
    case 'connection':
      return /^keep-alive$/i.test(value);
    default:
      return name !== '' && !special.has(name);
  }
}

/** One header: a name, and a value that begins and ends with a visible character. */
const line = /([\w!#$%&'*+.^`|~-]+): ?([\x21-\x7E](?:[\x20-\x7E]*[\x21-\x7E])?)\r\n/y;

/** A name or an IPv4 address; the ordinary parser checks an IPv6 address. */
const plainHost = /^[\w-]+(?:\.[\w-]+)*\.?(?::\d+)?$/;
const plainType = /^application\/json(?:; ?charset=utf-8)?$/i;

/** They change how a request, its body, its caller or its connection is read, or the id of its event. */
const special: ReadonlySet<string> = new Set([
  'content-encoding',
  'cookie',
  'expect',
  'http2-settings',
  'idempotency-key',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
