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
import { domain, origin as originValue, pattern, wholeNumber } from '../core/value.ts';

/** The settings of the message API: docs/message-api.md#settings. */
export interface MessageSettings {
  readonly host: string;
  readonly port: number;
  /** `PORT`, or `APP_PORT` if the port was read from it. */
  readonly portVariable: string;
  /** The only origin whose pages may read the responses. */
  readonly origin: string;
  readonly audience: string;
  /** `host[:port]` of the authorization server; absent: the first tenant is the issuer. */
  readonly issuerDomain: string | undefined;
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
  if (host === undefined || port === undefined) return { problems };
  if (origin === undefined || audience === undefined) return { problems };
  if (maxConnectionsPerAddress === undefined || trustProxy === undefined) return { problems };
  if (keepAliveSeconds === undefined || watchdogSeconds === undefined) return { problems };
  if (problems.length > 0) return { problems };
  const { variable: portVariable } = portSetting;
  const api = { portVariable, origin, audience, issuerDomain };
  const shared = { maxConnectionsPerAddress, keepAliveSeconds, trustProxy, watchdogSeconds };
  return { settings: { host, port, ...api, ...shared } };
}

/** Returns the lines that `leat config` prints for the message API, as `leat start` runs it. */
export function describeMessageSettings(texts: ReadonlyMap<string, string>): string[] {
  return showMessageSettings(texts).map(settingLine);
}

/** Returns the settings of the message API, in the same order. */
export function showMessageSettings(texts: ReadonlyMap<string, string>): ShownSetting[] {
  return [portSettingOf(texts), settings.origin, settings.audience, settings.issuerDomain].map(
    (setting) => showSetting(setting, texts.get(setting.variable)),
  );
}

/** `APP_PORT` is another name for `PORT`, used if that is absent. */
function portSettingOf(texts: ReadonlyMap<string, string>): Setting<number> {
  const isAppPort = !texts.has('PORT') && texts.has('APP_PORT');
  return isAppPort ? { ...settings.port, variable: 'APP_PORT' } : settings.port;
}

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
    parse: domain,
    otherwise: 'first tenant',
    example: 'login.example.com',
    doc: 'domain of the authorization server; its issuer is https://<domain>/',
  },
} as const satisfies Record<string, Setting>;
