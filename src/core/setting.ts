import { host as hostValue, type Parse, type Parsed, proxies, wholeNumber } from './value.ts';

/** One setting of the program: how its variable is read, documented and shown. */
export interface Setting<T = unknown> {
  readonly variable: string;
  readonly parse: Parse<T>;
  /** The default as its text; absent means that the setting may be absent. */
  readonly fallback?: string;
  /** What is shown when it is absent; `not set` unless given. */
  readonly otherwise?: string;
  /** A good value; the fallback unless given. */
  readonly example?: string;
  readonly doc: string;
  /** What of the value is never shown: all of it, the user info or the path of a URL. */
  readonly secret?: 'all' | 'user info' | 'path';
  /** An empty text is a value of its own instead of counting as not set. */
  readonly mayBeEmpty?: true;
}

/** The value of a setting: that of its text, else of its default; `absent` without both. */
export function valueOf<T>(setting: Setting<T>, text: string | undefined): Parsed<T> | 'absent' {
  const inForce = text ?? setting.fallback;
  return inForce === undefined ? 'absent' : setting.parse(inForce);
}

/** What is wrong with a text, in one line. A text that may hold a secret is not repeated. */
export function badValue(setting: Setting, text: string, problem: string): string {
  const quoted = setting.secret === undefined ? `"${cut(printable(text))}"` : 'the value';
  return problemLine(setting, `${quoted} ${problem}`);
}

/** The one line that ends a start: the variable, what is wrong, an example. */
export function problemLine(
  setting: Pick<Setting, 'variable' | 'example' | 'fallback'>,
  problem: string,
): string {
  const example = setting.example ?? setting.fallback ?? '';
  return `${setting.variable}: ${problem}, for example ${setting.variable}=${example}`;
}

/** What `leat config` prints: the variable, the value in force or the default, what it means. */
export function settingLine(
  setting: Setting,
  text: string | undefined,
  fallback = setting.fallback,
): string {
  const byDefault = fallback === '' ? 'empty' : (fallback ?? setting.otherwise ?? 'not set');
  const value = text === undefined ? `${byDefault} (default)` : shown(setting, text) || 'empty';
  return `${setting.variable.padEnd(30)} ${value.padEnd(32)} ${setting.doc}`;
}

/** Where both APIs listen. */
export const listeningHost = {
  variable: 'LEAT_HOST',
  parse: hostValue,
  fallback: '127.0.0.1',
  example: '0.0.0.0',
  doc: 'address to listen on',
} as const satisfies Setting<string>;

/** A text of the setting as it may be shown to anybody: printable, without its secret. */
function shown(setting: Setting, text: string): string {
  return printable(masked(setting.secret, text));
}

function masked(secret: Setting['secret'], text: string): string {
  if (secret === 'all') return '***';
  const authority = /^(?<scheme>[a-z]+:\/\/)(?:[^/?#]*@)?(?<host>[^/?#]*)(?<rest>.*)$/is.exec(text);
  if (secret === undefined || authority === null) return text;
  const { scheme = '', host = '', rest = '' } = authority.groups ?? {};
  const userInfo = text.startsWith(`${scheme}${host}`) ? '' : '***@';
  const kept = secret === 'path' ? maskedPath(rest) : maskedParameters(rest);
  return `${scheme}${userInfo}${host}${kept}`;
}

function maskedPath(rest: string): string {
  return rest === '' || rest === '/' ? rest : '/***';
}

/** A database URL may carry its password as a parameter too. */
function maskedParameters(rest: string): string {
  return rest.replaceAll(/(?<name>[?&][^=&]*(?:pass|secret|key)[^=&]*=)[^&]*/gi, '$<name>***');
}

/** A text with its unprintable characters (control, format, line separators) as code points. */
export function printable(text: string): string {
  return text.replaceAll(
    /[\p{C}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

const QUOTED_CHARACTERS_MAX = 100;

function cut(text: string): string {
  const characters = Array.from(text);
  if (characters.length <= QUOTED_CHARACTERS_MAX) return text;
  return `${characters.slice(0, QUOTED_CHARACTERS_MAX).join('')}…`;
}

/** The proxies that both APIs trust. */
export const trustedProxies = {
  variable: 'LEAT_TRUST_PROXY',
  parse: proxies,
  fallback: 'false',
  example: '10.0.0.0/8',
  doc: 'addresses and ranges of proxies whose X-Forwarded headers are believed, or false',
} as const satisfies Setting<readonly string[]>;

/** How many connections one address has to each API at most. */
export const connectionsPerAddress = {
  variable: 'LEAT_MAX_CONNECTIONS_PER_ADDRESS',
  parse: wholeNumber(1, 1_000_000),
  fallback: '1000',
  doc: 'connections of one IPv4 address or IPv6 /64 to each API; trusted proxies have no limit, but each client behind them as many requests at once',
} as const satisfies Setting<number>;
