import { parseAddress, parseNetwork } from './address.ts';
import { ownBytes, type OwnBytes } from './own-bytes.ts';
import { postgresServers } from './postgres-url.ts';
import type { RetryOption } from './types.ts';

/**
 * Parses the text of a setting; returns the value or the problem and never throws. Parsers are strict,
 * so that a typing error is not taken for another value: no blanks, signs, fractions, exponents.
 */
export type Parse<T> = (text: string) => Parsed<T>;

/** `problem` completes a sentence that begins with the text: `is not a whole number …`. */
export type Parsed<T> = { readonly value: T } | { readonly problem: string };

/** Where the store is: a SQLite file, SQLite in memory, or a PostgreSQL server. */
export type StoreLocation =
  | {
      readonly engine: 'sqlite';
      /** A path, `:memory:`, or a `file:` URI without parameters (sqlite.org/uri.html). */
      readonly path: string;
      /** The file of `path`; absent in memory. */
      readonly file: string | undefined;
    }
  | { readonly engine: 'postgres'; readonly url: string };

/** A whole number in ASCII digits, from `min` to `max` inclusive. */
export function wholeNumber(min: number, max: number): Parse<number> {
  const problem = `is not a whole number from ${min} to ${max}`;
  return (text) => {
    const value = /^(?:0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN;
    return value >= min && value <= max ? { value } : { problem };
  };
}

/** Items separated by commas, with optional blanks; an empty text is an empty list. */
export function list<T>(item: Parse<T>, itemsMax: number): Parse<readonly T[]> {
  return (text) => {
    if (text === '') return { value: [] };
    const texts = text.split(',').map((part) => part.trim());
    if (texts.length > itemsMax) return { problem: `has more than ${itemsMax} items` };
    const value: T[] = [];
    for (const [index, part] of texts.entries()) {
      const parsed = item(part);
      if ('problem' in parsed)
        return { problem: `is wrong in item ${index + 1}: it ${parsed.problem}` };
      value.push(parsed.value);
    }
    return { value };
  };
}

/** One of a few words. */
export function oneOf<const W extends string>(...words: readonly W[]): Parse<W> {
  return (text) => {
    const value = words.find((word) => word === text);
    return value === undefined ? { problem: `is not ${words.join(' or ')}` } : { value };
  };
}

const daySeconds = 86_400;

/** A retry schedule: its name, or its waits in seconds. */
export const retryOption: Parse<RetryOption> = (text) => {
  const preset = oneOf('quick', 'hours', 'days')(text);
  if ('value' in preset) return preset;
  const waits = list(wholeNumber(1, daySeconds), 20)(text);
  if ('value' in waits && waits.value.length > 0) return { value: { delaysSeconds: waits.value } };
  return { problem: `is not quick, hours, days, or 1 to 20 waits of 1 to ${daySeconds} seconds` };
};

/** `true` or `false`. */
export const flag: Parse<boolean> = (text) =>
  text === 'true' || text === 'false'
    ? { value: text === 'true' }
    : { problem: 'is not true or false' };

/** The name of a tenant, as in `svctenant`. */
export const tenantName: Parse<string> = pattern('3 to 63 of a-z, 0-9 and -', /^[a-z0-9-]{3,63}$/);

/** A text that matches a pattern; `kind` names it in the problem. */
export function pattern(kind: string, expression: RegExp): Parse<string> {
  return (text) => (expression.test(text) ? { value: text } : { problem: `is not ${kind}` });
}

/** A text of a bounded length, counted in characters, without control characters. */
export function plainText(charactersMin: number, charactersMax: number): Parse<string> {
  return (text) => {
    // oxlint-disable-next-line no-control-regex -- control characters are what is rejected.
    if (/[\u0000-\u001F\u007F-\u009F]/.test(text)) return { problem: 'has control characters' };
    const characters = Array.from(text).length;
    if (characters < charactersMin)
      return { problem: `has fewer than ${charactersMin} characters` };
    if (characters > charactersMax) return { problem: `has more than ${charactersMax} characters` };
    return { value: text };
  };
}

/** A listening address: a host name or an address without brackets, in lower case. */
export const host: Parse<string> = (text) => {
  const value = text.toLowerCase();
  if (isHostName(value) || isAddress(value)) return { value };
  return { problem: 'is not a host name or an address' };
};

/**
 * `host[:port]` in lower case, an IPv6 address in brackets. `:443` is dropped, because the domain is
 * used in `https://<domain>/`.
 */
export const domain: Parse<string> = (text) => {
  const match = /^(?<host>[^:[\]]+|\[[^[\]]+\])(?::(?<port>[0-9]+))?$/.exec(text.toLowerCase());
  const name = hostOfDomain(match?.groups?.['host'] ?? '');
  const port = match?.groups?.['port'];
  const wrong = name === undefined || (port !== undefined && !isPort(port));
  if (wrong) return { problem: 'is not host[:port]' };
  return { value: port === undefined || port === '443' ? name : `${name}:${port}` };
};

/** `https://host[:port]` without a path; the value is in lower case, without `:443`. */
export const httpsOrigin: Parse<string> = (text) => {
  const match = /^https:\/\/(?<domain>[^/?#@]+)$/i.exec(text);
  const parsed = domain(match?.groups?.['domain'] ?? '');
  if ('problem' in parsed) return { problem: 'is not https://host[:port]' };
  return { value: `https://${parsed.value}` };
};

/** `http(s)://host[:port]` exactly as browsers send it in `Origin` (RFC 6454 section 6.2). */
export const origin: Parse<string> = (text) => {
  const url = parseUrl(text);
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    return { problem: 'is not http://host[:port] or https://host[:port]' };
  }
  if (url.origin === text) return { value: text };
  return { problem: `is not as browsers write it, which is ${url.origin}` };
};

/** An external token issuer. The value is the unchanged text: `iss` is compared letter by letter. */
export const issuerUrl: Parse<string> = (text) => {
  const problem = 'is not an https:// URL without user info, query and fragment';
  const url = parseUrl(text);
  if (url === undefined || hasUserInfo(url) || /[?#]/.test(text)) return { problem };
  const trusted =
    url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname));
  return trusted ? { value: text } : { problem };
};

/** An `http://` or `https://` URL without user info. */
export const httpUrl: Parse<string> = (text) => {
  const url = parseUrl(text);
  const known = url !== undefined && /^https?:$/.test(url.protocol) && !hasUserInfo(url);
  return known ? { value: text } : { problem: 'is not an http:// or https:// URL' };
};

/** `smtp://` or `smtps://`, user info, host and port. */
export const smtpUrl: Parse<string> = (text) => {
  const problem = 'is not smtp://[user:password@]host[:port] or smtps://…';
  const url = parseUrl(text);
  if (url === undefined || !/^smtps?:$/.test(url.protocol) || url.hostname === '')
    return { problem };
  const rest = `${url.pathname}${url.search}${url.hash}`;
  return rest === '' || rest === '/' ? { value: text } : { problem };
};

/** One e-mail address, without a display name. */
export const mailAddress: Parse<string> = pattern(
  'an e-mail address',
  /^[^\s@,;<>"\p{C}]{1,64}@[^\s@,;<>"\p{C}]{1,189}$/u,
);

/** An address, or a range of addresses as `address/prefix length`. */
export const cidr: Parse<string> = (text) =>
  parseNetwork(text) === undefined
    ? { problem: 'is not an address or a range such as 10.0.0.0/8' }
    : { value: text };

/** `address[:port]` of a server, an IPv6 address with a port in brackets. */
export const serverAddress: Parse<string> = (text) => {
  const problem = 'is not an address or address:port, such as 10.0.0.53 or [fd00::53]:5353';
  if (isAddress(text)) return { value: text };
  const match = /^(?:\[(?<six>[^[\]]+)\]|(?<four>[^:[\]]+)):(?<port>[0-9]+)$/.exec(text)?.groups;
  const { six = '', four = '', port = '' } = match ?? {};
  const isSound = (isIpv6(six) || isIpv4(four)) && isPort(port);
  return isSound ? { value: text } : { problem };
};

/** `false` (an empty list), or a list of {@link cidr}. */
export const proxies: Parse<readonly string[]> = (text) => {
  if (text === 'false') return { value: [] };
  const parsed = list(cidr, 100)(text);
  if ('value' in parsed && parsed.value.length > 0) return parsed;
  return { problem: 'is not false or a list of addresses and ranges' };
};

/** 32 bytes in base64, as `openssl rand -base64 32` prints them. */
const key32: Parse<OwnBytes> = (text) => {
  const bytes = Buffer.from(text, 'base64');
  // The decoder skips invalid characters; only valid base64 is encoded to the same text again.
  const isBase64 = bytes.length === 32 && bytes.toString('base64') === text;
  return isBase64 ? { value: ownBytes(bytes) } : noKey;
};

/** One key, or two with a comma between them. */
export const keys32: Parse<readonly OwnBytes[]> = (text) => {
  const parts = text.split(',');
  const [first, second = first] = parts.map(key32);
  if (first === undefined || 'problem' in first) return first ?? noKey;
  if (second === undefined || 'problem' in second) return noSecondKey;
  if (parts.length > 2) return { problem: 'has more than two keys' };
  if (parts[0] === parts[1]) return { problem: 'has the same key twice' };
  return { value: parts.length === 1 ? [first.value] : [first.value, second.value] };
};

const noKey = { problem: 'is not 32 bytes in base64' };
const noSecondKey = { problem: 'has a second key that is not 32 bytes in base64' };

/** `sqlite:<path>`, `sqlite::memory:`, `sqlite:file:<URI>`, or a PostgreSQL URL of one or more hosts. */
export const storeLocation: Parse<StoreLocation> = (text) => {
  if (text.startsWith('sqlite:')) return sqliteLocation(text.slice('sqlite:'.length));
  if (!/^postgres(?:ql)?:\/\//.test(text)) return { problem: noStore };
  const named = postgresServers(text);
  if ('problem' in named) return named;
  if (named.servers.every(({ url }) => isPostgresUrl(url)))
    return { value: { engine: 'postgres', url: text } };
  const isCut = /#|^[^/]*\/\/[^/?]*[/?].*@/s.test(text);
  return { problem: isCut ? notEncoded : noStore };
};

const noStore = 'is not sqlite:<path> or a postgres:// URL';
const notEncoded =
  'is not a postgres:// URL: in user, password and parameters # is %23, @ is %40, / is %2F and ? is %3F';

function isPostgresUrl(text: string): boolean {
  const url = parseUrl(text);
  return url !== undefined && url.hash === '' && !`${url.pathname}${url.search}`.includes('@');
}

/** Parameters of SQLite are refused: `mode=memory` stores nothing, and `nolock=1` lets two servers write. */
function sqliteLocation(path: string): Parsed<StoreLocation> {
  if (path === ':memory:') return { value: { engine: 'sqlite', path, file: undefined } };
  const problem = 'is not sqlite:<path>: the path';
  if (path.includes('?')) return { problem: `${problem} ${hasParameters}` };
  if (/^\/\/[^/]/.test(path)) return { problem: `${problem} begins with //` };
  const isUri = path.startsWith('file:');
  if (isUri && path.includes('#')) {
    return { problem: `${problem} has a # that is not %23 in a file: URI` };
  }
  const file = isUri ? fileOfUri(path) : path;
  // SQLite reads `:memory:` in a URI as well.
  if (file === undefined || file === '' || file.endsWith('/') || file === ':memory:') {
    return { problem: `${problem} names no file` };
  }
  // oxlint-disable-next-line no-control-regex -- a control character in a path is a typing error.
  if (/[\u0000-\u001F\u007F]/.test(file)) return { problem: `${problem} has control characters` };
  return { value: { engine: 'sqlite', path, file } };
}

const hasParameters =
  'has a ?, and parameters of SQLite are not accepted; a ? that is part of the path is %3F in a file: URI, as in sqlite:file:/srv/a%3Fb/leat.db';

/** Returns the decoded path of a `file:` URI. */
function fileOfUri(uri: string): string | undefined {
  const encoded = uri.slice('file:'.length).replace(/^\/\/(?:localhost)?(?=\/)/, '');
  try {
    return encoded.startsWith('//') ? undefined : decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

/** Rejects blanks and control characters, which WHATWG parsing drops silently. */
function parseUrl(text: string): URL | undefined {
  // oxlint-disable-next-line no-control-regex -- see above.
  if (/[\u0000-\u0020\u007F-\u00A0\\]/.test(text) || text.length > 2048) return undefined;
  return /^[a-z]+:\/\//i.test(text) ? (URL.parse(text) ?? undefined) : undefined;
}

function hasUserInfo(url: URL): boolean {
  return url.username !== '' || url.password !== '';
}

/** Returns the host in canonical form, `undefined` if it is invalid. */
function hostOfDomain(text: string): string | undefined {
  if (!text.startsWith('[')) return isHostName(text) || isIpv4(text) ? text : undefined;
  return isIpv6(text.slice(1, -1)) ? URL.parse(`http://${text}/`)?.hostname : undefined;
}

function isHostName(text: string): boolean {
  if (text.length > 253) return false;
  const labels = text.split('.');
  const wellFormed = labels.every((label) =>
    /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/.test(label),
  );
  // With a number as the last label, decimal or hexadecimal, browsers parse an IPv4 address.
  return wellFormed && !/^(?:[0-9]+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? '');
}

function isAddress(text: string): boolean {
  return isIpv4(text) || isIpv6(text);
}

function isIpv4(text: string): boolean {
  return parseAddress(text)?.length === 4;
}

function isIpv6(text: string): boolean {
  return !text.includes('%') && parseAddress(text)?.length === 16;
}

function isPort(text: string): boolean {
  return 'value' in wholeNumber(1, 65_535)(text);
}

/** Returns whether the host of a URL is `localhost` or a loopback address in canonical form. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '127.0.0.1' || hostname === '[::1]';
}
