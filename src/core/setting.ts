import { host as hostValue, type Parse, type Parsed, proxies, wholeNumber } from './value.ts';

/** A setting of the program: how its variable is parsed, documented and shown. */
export interface Setting<T = unknown> {
  readonly variable: string;
  readonly parse: Parse<T>;
  /** Text of the default; without one the setting may be absent. */
  readonly fallback?: string;
  /** Shown when the setting is absent; by default `not set`. */
  readonly otherwise?: string;
  /** A valid value; by default the fallback. */
  readonly example?: string;
  readonly doc: string;
  /** The part of the value that is never shown: all of it, the user info or the path of a URL. */
  readonly secret?: 'all' | 'user info' | 'path';
  /** An empty text is a value; otherwise it counts as not set. */
  readonly mayBeEmpty?: true;
}

/** Parses the text of a setting, or else its default; returns `absent` without both. */
export function valueOf<T>(setting: Setting<T>, text: string | undefined): Parsed<T> | 'absent' {
  const effective = text ?? setting.fallback;
  return effective === undefined ? 'absent' : setting.parse(effective);
}

/** Returns the line for an invalid text. Does not quote a text that may contain a secret. */
export function badValue(setting: Setting, text: string, problem: string): string {
  const quoted = setting.secret === undefined ? `"${cut(printable(text))}"` : 'the value';
  return problemLine(setting, `${quoted} ${problem}`);
}

/** Returns the line that is printed when a start fails: variable, problem, example. */
export function problemLine(
  setting: Pick<Setting, 'variable' | 'example' | 'fallback'>,
  problem: string,
): string {
  const example = setting.example ?? setting.fallback ?? '';
  return `${setting.variable}: ${problem}, for example ${setting.variable}=${example}`;
}

/** A setting as anybody may see it: without its secret. */
export interface ShownSetting {
  /** Its variable. */
  readonly name: string;
  /** Text in force; `undefined` where there is none. */
  readonly value: string | undefined;
  /** Text of the default, or a word such as `generated`; `undefined` where there is none. */
  readonly fallback: string | undefined;
  /** Nobody has set it. */
  readonly isDefault: boolean;
  readonly meaning: string;
}

/** Returns a setting with the text that was set, masked; `fallback` replaces its default. */
export function showSetting(
  setting: Setting,
  text: string | undefined,
  fallback = setting.fallback,
): ShownSetting {
  const byDefault = fallback ?? setting.otherwise;
  return {
    name: setting.variable,
    value: text === undefined ? byDefault : shownText(setting, text),
    fallback: byDefault,
    isDefault: text === undefined,
    meaning: setting.doc,
  };
}

/** Widths for the longest variable and the longest default. */
const nameWidth = 35;
const valueWidth = 42;

/**
 * Returns the text of `leat config` for a setting: variable, effective value, meaning. The meaning has
 * a line of its own after a value that is longer than the column.
 */
export function settingLine({ name, value, isDefault, meaning }: ShownSetting): string {
  const shown = value === '' ? 'empty' : (value ?? 'not set');
  const text = isDefault ? `${shown} (default)` : shown;
  const start = `${name.padEnd(nameWidth)} ${text.padEnd(valueWidth)}`;
  if (text.length <= valueWidth) return `${start} ${meaning}`;
  return `${start}\n${' '.repeat(nameWidth + valueWidth + 1)} ${meaning}`;
}

/** The listening address of both APIs. */
export const listeningHost = {
  variable: 'LEAT_HOST',
  parse: hostValue,
  fallback: '127.0.0.1',
  example: '0.0.0.0',
  doc: 'address to listen on',
} as const satisfies Setting<string>;

/** Returns a text of the setting that may be shown to anybody: printable, without its secret. */
export function shownText(setting: Setting, text: string): string {
  return printable(masked(setting.secret, text));
}

function masked(secret: Setting['secret'], text: string): string {
  if (secret === 'all') return '***';
  const authority = /^(?<scheme>[a-z]+:\/\/)(?:[^/?#]*@)?(?<host>[^/?#]*)(?<rest>.*)$/is.exec(text);
  if (secret === undefined || authority === null) return text;
  const { scheme = '', host = '', rest = '' } = authority.groups ?? {};
  const userInfo = text.startsWith(`${scheme}${host}`) ? '' : '***@';
  const maskedRest = secret === 'path' ? maskedPath(rest) : maskedParameters(rest);
  return `${scheme}${userInfo}${host}${maskedRest}`;
}

function maskedPath(rest: string): string {
  return rest === '' || rest === '/' ? rest : '/***';
}

/** A database URL may also have its password in a parameter. */
function maskedParameters(rest: string): string {
  return rest.replaceAll(/(?<name>[?&][^=&]*(?:pass|secret|key)[^=&]*=)[^&]*/gi, '$<name>***');
}

/**
 * Replaces unprintable characters (control, format, line separators) by their code points, and those that
 * texts are full of by their usual names: `\n`, `\r` and `\t`.
 */
export function printable(text: string): string {
  return text.replaceAll(
    /[\p{C}\p{Zl}\p{Zp}]/gu,
    (character) => escapes[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

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

/** A setting of the service and of the message API: see docs/production.md. */
export const watchdogSeconds = {
  variable: 'LEAT_WATCHDOG_SECONDS',
  parse: wholeNumber(0, 3600),
  fallback: '30',
  doc: 'ends a process whose event loop has been busy and stood still for so long; 0: never',
} as const satisfies Setting<number>;

/**
 * How long each API keeps idle connections. A proxy must close them first, or it sends a request on a
 * connection that is closed meanwhile; those that one meets keep them for 60 to 600 s.
 */
export const keepAlive = {
  variable: 'LEAT_KEEP_ALIVE_SECONDS',
  parse: wholeNumber(1, 86_400),
  fallback: '650',
  doc: 'after this time without a request each API closes a connection; longer than any proxy in front keeps it',
} as const satisfies Setting<number>;

/** The maximum number of connections of one address to each API. */
export const connectionsPerAddress = {
  variable: 'LEAT_MAX_CONNECTIONS_PER_ADDRESS',
  parse: wholeNumber(1, 1_000_000),
  fallback: '1000',
  doc: 'connections of one IPv4 address or IPv6 /64 to each API; trusted proxies have no limit, but each client behind them as many requests at once',
} as const satisfies Setting<number>;
