import {
  badValue,
  connectionsPerAddress,
  keepAlive,
  listeningHost,
  problemLine,
  type Setting,
  settingLine,
  type ShownSetting,
  showSetting,
  trustedProxies,
  valueOf,
  watchdogSeconds as watchdogSetting,
} from '../core/setting.ts';
import { type ClaimRules, claimRules } from '../core/claim-rules.ts';
import {
  domain,
  issuerUrl,
  type Parse,
  origin as originValue,
  pattern,
  wholeNumber,
} from '../core/value.ts';

/** The settings of the message API: docs/message-api.md#settings. */
export interface MessageSettings {
  readonly host: string;
  readonly port: number;
  /** `PORT`, or `APP_PORT` if the port was read from it. */
  readonly portVariable: string;
  /** The only origin whose pages may read the responses. */
  readonly origin: string;
  readonly audience: string;
  /** `host[:port]` of the authorization server, or its issuer, an `https://` URL; absent: the first tenant is the issuer. */
  readonly issuerDomain: string | undefined;
  /** How its tokens are read. */
  readonly claims: ClaimRules | undefined;
  /** LEAT_MAX_CONNECTIONS_PER_ADDRESS and LEAT_TRUST_PROXY. */
  readonly maxConnectionsPerAddress: number;
  /** LEAT_KEEP_ALIVE_SECONDS. */
  readonly keepAliveSeconds: number;
  readonly trustProxy: readonly string[];
  /** LEAT_WATCHDOG_SECONDS. */
  readonly watchdogSeconds: number;
}

/** The settings, or the lines to print before the program ends with exit code 1. */
export type MessageReading =
  | { readonly settings: MessageSettings }
  | { readonly problems: readonly string[] };

/**
 * Parses the settings from the texts of the variables. With `alone` there are no defaults: without the
 * management API, the operator must set whose tokens are accepted and which pages may read responses.
 */
export function readMessageSettings(
  texts: ReadonlyMap<string, string>,
  { alone }: { readonly alone: boolean },
): MessageReading {
  const problems: string[] = [];
  const read = <T>(setting: Setting<T>, required = alone): T | undefined => {
    const text = texts.get(setting.variable);
    const parsed = text === undefined && required ? 'absent' : valueOf(setting, text);
    if (parsed === 'absent') {
      if (required) problems.push(problemLine(setting, 'is required'));
      return undefined;
    }
    if ('value' in parsed) return parsed.value;
    problems.push(badValue(setting, text ?? '', parsed.problem));
    return undefined;
  };
  const portSetting = portSettingOf(texts);
  const host = read(listeningHost, false);
  const maxConnectionsPerAddress = read(connectionsPerAddress, false);
  const keepAliveSeconds = read(keepAlive, false);
  const trustProxy = read(trustedProxies, false);
  const watchdogSeconds = read(watchdogSetting, false);
  const port = read(portSetting);
  const origin = read(settings.origin);
  const audience = read(settings.audience);
  const issuerDomain = read(settings.issuerDomain);
  const claims = read(settings.claims, false);
  if (host === undefined || port === undefined) return { problems };
  if (origin === undefined || audience === undefined) return { problems };
  if (maxConnectionsPerAddress === undefined || trustProxy === undefined) return { problems };
  if (keepAliveSeconds === undefined || watchdogSeconds === undefined) return { problems };
  if (problems.length > 0) return { problems };
  const { variable: portVariable } = portSetting;
  const api = { portVariable, origin, audience, issuerDomain, claims };
  const shared = { maxConnectionsPerAddress, keepAliveSeconds, trustProxy, watchdogSeconds };
  return { settings: { host, port, ...api, ...shared } };
}

/** Returns the lines that `leat config` prints for the message API, as `leat start` runs it. */
export function describeMessageSettings(texts: ReadonlyMap<string, string>): string[] {
  return showMessageSettings(texts).map(settingLine);
}

/** Returns the settings of the message API, in the same order. */
export function showMessageSettings(texts: ReadonlyMap<string, string>): ShownSetting[] {
  const { origin, audience, issuerDomain, claims } = settings;
  return [portSettingOf(texts), origin, audience, issuerDomain, claims].map((setting) =>
    showSetting(setting, texts.get(setting.variable)),
  );
}

/** `APP_PORT` is another name for `PORT`, used if that is absent. */
function portSettingOf(texts: ReadonlyMap<string, string>): Setting<number> {
  const isAppPort = !texts.has('PORT') && texts.has('APP_PORT');
  return isAppPort ? { ...settings.port, variable: 'APP_PORT' } : settings.port;
}

/** A domain, or an issuer as it is in its tokens; its `https://` may be left out where it has a path. */
const issuerLocation: Parse<string> = (text) => {
  const hasScheme = text.startsWith('https://');
  if (!text.includes('/')) return domain(text);
  const issuer = issuerUrl(hasScheme ? text : `https://${text}`);
  const isPlain = !/[\s\p{C}]|.:\/\/|[^:]\/\//u.test(text.replace(/^https:\/\//, ''));
  if ('value' in issuer && isPlain) return issuer;
  return { problem: 'is not host[:port], host[:port]/path or https://host[:port][/path]' };
};

const settings = {
  port: {
    variable: 'PORT',
    parse: wholeNumber(1, 65_535),
    fallback: '6060',
    doc: 'port of the message API; APP_PORT where PORT is not set',
  },
  origin: {
    variable: 'CLIENT_ORIGIN_URL',
    parse: originValue,
    fallback: 'http://localhost:4040',
    doc: 'the one origin whose pages may read messages',
  },
  audience: {
    variable: 'TOKEN_AUDIENCE',
    // The identifiers that APIs can be registered with.
    parse: pattern('1 to 600 characters without blanks', /^[^\s\p{Cc}]{1,600}$/u),
    fallback: 'https://messages.example.com',
    doc: 'audience of the tokens that open messages',
  },
  issuerDomain: {
    variable: 'TOKEN_ISSUER_DOMAIN',
    parse: issuerLocation,
    otherwise: 'first tenant',
    example: 'login.example.com',
    doc: 'domain of the authorization server, whose issuer is https://<domain>/, or domain/path',
  },
  claims: {
    variable: 'TOKEN_CLAIMS',
    parse: claimRules('permissions', 'prefix'),
    example: 'permissions=/realm_access/roles',
    doc: 'the claim with the permissions, where it has another name',
  },
} as const satisfies Record<string, Setting>;
