import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseEnv } from 'node:util';
import type { CliEnv } from './cli/env.ts';
import { badPortOfDomain, badPortProblem } from './core/bad-port.ts';
import {
  badValue,
  printable,
  problemLine,
  type Setting,
  settingLine,
  type ShownSetting,
  showSetting,
  valueOf,
} from './core/setting.ts';
import { isLoopback, type Parse } from './core/value.ts';
import { defaultDataFolder, foreignFile } from './files/default-data-folder.ts';
import { homeFolder } from './files/home-folder.ts';
import { alertingSettings, alertLimits, monitorLimits } from './settings/alerting.ts';
import { apiLimits, quotaSettings } from './settings/api.ts';
import { consoleLoginLimits, consoleSettings } from './settings/console.ts';
import { deliveryLimits, deliverySettings } from './settings/delivery.ts';
import { envelopeSettings } from './settings/envelope.ts';
import { listeningSettings, tlsLimits } from './settings/listening.ts';
import {
  inspectorLimits,
  nameLimits,
  networkSettings,
  resolverLimits,
  responseLimits,
  tokenLimits,
} from './settings/network.ts';
import { metricsLimits, observabilitySettings } from './settings/observability.ts';
import { pullLimits } from './settings/pull.ts';
import { retentionSettings, upkeepLimits } from './settings/retention.ts';
import { statsLimits } from './settings/stats.ts';
import { storeSettings } from './settings/store.ts';
import { tenantSettings } from './settings/tenant.ts';

/** Reads the settings from the environment and from `.env` in the working directory. */
export function loadConfig(): Reading {
  const texts = loadTexts();
  if ('problems' in texts) return texts;
  const names = namesInLocalFolder();
  const foreign = foreignFile(names ?? []);
  const hasLocalFolder = names !== undefined && foreign === undefined;
  const { platform, env } = process;
  const folder = defaultDataFolder({ platform, env, home: homeFolder(), hasLocalFolder });
  if (foreign === undefined || texts.has('LEAT_STORE')) return configOf(texts, folder);
  return { problems: [foreignFolder(foreign, folder)] };
}

/** Returns the names in the folder `data` of the working directory, `undefined` without one. */
function namesInLocalFolder(): readonly string[] | undefined {
  try {
    return readdirSync('data');
  } catch {
    // Where this user may not read the folder, the start reports the store in it.
    return statSync('data', { throwIfNoEntry: false })?.isDirectory() === true ? [] : undefined;
  }
}

function foreignFolder(name: string, folder: string): string {
  const other = folder === './data' ? 'sqlite:<file in another folder>' : storeIn(folder);
  return (
    `LEAT_STORE: the folder ./data is of another program: it has ${printable(name)} and no leat.db. ` +
    `Set LEAT_STORE=${other}, or LEAT_STORE=${storeIn('./data')} to use it all the same, ` +
    'or start Leat in another directory'
  );
}

/**
 * Returns the text of every variable that is set in the environment or in `.env`. Only this file
 * reads `process.env`.
 */
export function loadTexts(): Texts | { readonly problems: readonly string[] } {
  try {
    return textsOf(process.env, readFileSync('.env', 'utf8'));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    if (error.code === 'ENOENT') return textsOf(process.env, '');
    return { problems: [`.env: cannot be read (${String(error.code)}), fix or remove it`] };
  }
}

/**
 * Returns the environment of the message process: what Node and its libraries read. Its settings come
 * from the parent, so it has no use for those of the service and their secrets.
 *
 * @param compiled folder for compiled modules; absent: that of the environment, if it names one
 */
export function messageProcessEnv(compiled?: string): Record<string, string> {
  const present = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && isOfNode(entry[0]),
  );
  return {
    ...Object.fromEntries(present),
    ...(compiled === undefined ? {} : { NODE_COMPILE_CACHE: compiled }),
  };
}

/** Names are listed: others that begin with NODE_ can hold secrets, for example NODE_AUTH_TOKEN. */
function isOfNode(name: string): boolean {
  return runtimeVariables.has(name) || proxyVariables.has(name.toUpperCase());
}

const runtimeVariables: ReadonlySet<string> = new Set([
  'NODE_OPTIONS',
  'NODE_COMPILE_CACHE',
  'NODE_V8_COVERAGE',
  'NODE_ICU_DATA',
  'NODE_EXTRA_CA_CERTS',
  'NODE_USE_SYSTEM_CA',
  'NODE_USE_ENV_PROXY',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'OPENSSL_CONF',
  'LD_LIBRARY_PATH',
  'UV_THREADPOOL_SIZE',
  'TZ',
  // Windows opens no socket without it.
  'SystemRoot',
]);

/** Node uses them with NODE_USE_ENV_PROXY, to fetch the keys of another issuer. */
const proxyVariables: ReadonlySet<string> = new Set(['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']);

/**
 * Reads the environment variables of the commands that work over HTTP. `.env` is not read: a folder
 * with files of another user must not decide where secrets are sent.
 */
export function loadCliEnv(): CliEnv {
  return readCliEnv(process.env);
}

/** Returns the variables of the commands that work over HTTP; an empty text counts as not set. */
export function readCliEnv(env: Env): CliEnv {
  const text = (variable: string): string | undefined => env[variable] || undefined;
  const texts = {
    url: text('LEAT_URL'),
    clientId: text('LEAT_CLIENT_ID'),
    clientSecret: text('LEAT_CLIENT_SECRET'),
    caFile: text('LEAT_CA'),
    configHome: text('XDG_CONFIG_HOME'),
    path: text('PATH'),
  };
  const present = Object.entries(texts).filter((entry) => entry[1] !== undefined);
  // Any text that is not empty forbids colours (no-color.org).
  return { ...Object.fromEntries(present), noColor: text('NO_COLOR') !== undefined };
}

/** Variables of the command line alone: the service accepts and ignores them. */
const commandLineVariables = ['LEAT_URL', 'LEAT_CLIENT_ID', 'LEAT_CLIENT_SECRET', 'LEAT_CA'];

/**
 * Parses the settings. `env` wins over `dotenvText`; an empty text counts as not set. Never throws:
 * returns one line for each wrong value instead of a configuration.
 *
 * @param defaultFolder data folder where LEAT_STORE names none
 */
export function readConfig(env: Env, dotenvText = '', defaultFolder = './data'): Reading {
  return configOf(textsOf(env, dotenvText), defaultFolder);
}

/** The text of every variable that is set. May hold secrets. */
export type Texts = ReadonlyMap<string, string>;

function configOf(texts: Texts, defaultFolder: string): Reading {
  const values: Record<string, unknown> = { defaultFolder };
  const problems: string[] = [];
  for (const [name, setting] of allSettings) {
    const text = texts.get(setting.variable);
    const parsed = valueOf(
      setting,
      text ?? (name === 'store' ? storeIn(defaultFolder) : undefined),
    );
    if (parsed === 'absent') continue;
    if ('value' in parsed) values[name] = parsed.value;
    else problems.push(badValue(setting, text ?? '', parsed.problem));
  }
  if (problems.length > 0) return { problems };
  // Each value comes from the parser of its name, and a setting with a default has a value.
  const config = values as unknown as Config;
  const conflicts = conflictsOf(config);
  if (conflicts.length > 0) return { problems: conflicts };
  const warnings = [...unknownVariables(texts), ...badPorts(config), ...storeInMemory(config)];
  return { config, texts, warnings };
}

/** A configuration, or the lines to show before the program ends with exit code 1. */
export type Reading = Loaded | { readonly problems: readonly string[] };

/** A configuration, the texts it was read from, and warnings for the operator. */
export interface Loaded {
  readonly config: Config;
  readonly texts: Texts;
  readonly warnings: readonly string[];
}

/** Returns the default of LEAT_STORE in a data folder. */
function storeIn(folder: string): string {
  return `sqlite:${folder}/leat.db`;
}

/** The settings in force. A setting without a default is absent when it is not set. */
export type Config = {
  /** Data folder where LEAT_STORE names none. */
  readonly defaultFolder: string;
} & {
  readonly [N in RequiredName]: ValueOf<(typeof settings)[N]>;
} & { readonly [N in Exclude<Name, RequiredName>]?: ValueOf<(typeof settings)[N]> };

type Env = Readonly<Record<string, string | undefined>>;
type Name = keyof typeof settings;
type RequiredName = {
  [N in Name]: (typeof settings)[N] extends { readonly fallback: string } ? N : never;
}[Name];
type ValueOf<S> = S extends { readonly parse: Parse<infer T> } ? T : never;

/**
 * Returns the lines of `leat config`: for every variable the value in force, whether that is the
 * default, and what it means. Secrets are masked.
 */
export function describeConfig(loaded: Loaded): string[] {
  return showConfig(loaded).map(settingLine);
}

/** Returns every setting, in the same order. Secrets are masked. */
export function showConfig({ config, texts }: Pick<Loaded, 'config' | 'texts'>): ShownSetting[] {
  return allSettings.map(([name, setting]) => {
    return showSetting(setting, texts.get(setting.variable), defaultOf(name, setting, config));
  });
}

/** Returns the text of a default; two of them depend on other settings and on the machine. */
function defaultOf(name: string, setting: Setting, config: Config): string | undefined {
  if (name === 'tenantDomain') return tenantDomainOf(config);
  return name === 'store' ? storeIn(config.defaultFolder) : setting.fallback;
}

/** Returns the domain of the first tenant, `host[:port]` in lower case. */
export function tenantDomainOf(
  config: Pick<Config, 'tenantDomain' | 'publicUrl' | 'port'>,
): string {
  const publicDomain = config.publicUrl?.slice('https://'.length);
  return config.tenantDomain ?? publicDomain ?? `localhost:${config.port}`;
}

/** Returns whether this process terminates TLS. */
export function endsTls({ tls, tlsCertPath }: Pick<Config, 'tls' | 'tlsCertPath'>): boolean {
  return tls !== undefined || tlsCertPath !== undefined;
}

/**
 * Returns whether clients reach a tenant over plain HTTP: a local trial under a loopback name,
 * without TLS, proxy and public URL. The issuer of such a tenant begins with `http://`.
 */
export function usesPlainHttp(config: Reach, tenantDomain: string): boolean {
  const { publicUrl, trustProxy } = config;
  const isLocalTrial = !endsTls(config) && publicUrl === undefined && trustProxy.length === 0;
  return isLocalTrial && isLoopback(tenantDomain.replace(/:[0-9]+$/, ''));
}

/** The settings that decide how clients reach a tenant. */
type Reach = Pick<Config, 'tls' | 'tlsCertPath' | 'trustProxy'> & {
  readonly publicUrl?: string | undefined;
};

/** Returns the folder of generated keys and credentials: that of the SQLite file, else the default one. */
export function dataFolderOf(config: Pick<Config, 'store' | 'defaultFolder'>): string {
  const { store, defaultFolder } = config;
  return store.engine === 'sqlite' && store.file !== undefined
    ? dirname(store.file)
    : defaultFolder;
}

function textsOf(env: Env, dotenvText: string): Texts {
  const texts = new Map<string, string>();
  // Some editors begin a file with a byte order mark, which would become part of the first name.
  for (const source of [parseEnv(dotenvText.replace(/^\uFEFF/, '')), env]) {
    for (const [variable, text] of Object.entries(source)) {
      if (text !== undefined && (text !== '' || mayBeEmpty.has(variable)))
        texts.set(variable, text);
    }
  }
  return texts;
}

function unknownVariables(texts: ReadonlyMap<string, string>): string[] {
  const known = new Set([
    ...allSettings.map(([, setting]) => setting.variable),
    ...commandLineVariables,
  ]);
  return [...texts.keys()]
    .filter((variable) => variable.startsWith('LEAT_') && !known.has(variable))
    .map((variable) => `${printable(variable)} is not a setting and has no effect`);
}

/** Returns a line for each port that listens, or is in the URL of clients, and browsers refuse. */
function badPorts(config: Config): string[] {
  const { port, metricsPort, tenantDomain, publicUrl } = config;
  const { variable } = tenantDomain === undefined ? settings.publicUrl : settings.tenantDomain;
  const ports: [variable: string, problem: string | undefined][] = [
    ['LEAT_PORT', badPortProblem(port)],
    ['LEAT_METRICS_PORT', metricsPort === undefined ? undefined : badPortProblem(metricsPort)],
    [variable, badPortOfDomain(tenantDomain ?? publicUrl ?? '')],
  ];
  return ports.flatMap(([name, problem]) =>
    problem === undefined ? [] : [`${name}: ${problem}; choose another one`],
  );
}

function storeInMemory({ store }: Config): string[] {
  if (store.engine !== 'sqlite' || store.file !== undefined) return [];
  return [
    'LEAT_STORE: sqlite::memory: is for trials: all events and settings are lost when the process ends; to keep them, set sqlite:<path>',
  ];
}

/** Returns the lines for settings that contradict or require each other. */
function conflictsOf(config: Config): string[] {
  const problems = [
    ...allOrNone(config, 'tlsCertPath', 'tlsKeyPath'),
    ...allOrNone(config, 'alertEmail', 'smtpUrl'),
    ...allOrNone(config, 'bootstrapClientId', 'bootstrapClientSecret'),
    ...allOrNone(
      config,
      'consoleOidcIssuer',
      'consoleOidcClientId',
      'consoleOidcClientSecret',
      'consoleRoles',
    ),
  ];
  if (config.consoleOidcScopes !== undefined && config.consoleOidcIssuer === undefined) {
    problems.push(
      problemLine(settings.consoleOidcIssuer, 'is required with LEAT_CONSOLE_OIDC_SCOPES'),
    );
  }
  for (const { issuer } of config.trustedIssuerClaims) {
    if (config.trustedIssuers.includes(issuer)) continue;
    problems.push(
      problemLine(
        { ...settings.trustedIssuers, example: issuer },
        `does not have ${issuer}, which LEAT_TRUSTED_ISSUER_CLAIMS names`,
      ),
    );
  }
  if (config.metricsPort === config.port) {
    const other = config.port === 9090 ? 9091 : 9090;
    problems.push(
      `LEAT_METRICS_PORT: ${config.port} is LEAT_PORT too, choose another, for example LEAT_METRICS_PORT=${other}`,
    );
  }
  if (config.tls !== undefined && config.tlsCertPath !== undefined) {
    problems.push('LEAT_TLS: "local" does not go with LEAT_TLS_CERT, for example LEAT_TLS=');
  }
  if (config.publicUrl !== undefined && `https://${tenantDomainOf(config)}` !== config.publicUrl) {
    const example = config.publicUrl.slice('https://'.length);
    const wrong = `"${tenantDomainOf(config)}" is not the host of LEAT_PUBLIC_URL`;
    problems.push(problemLine({ ...settings.tenantDomain, example }, wrong));
  }
  if (config.store.engine === 'postgres' && config.secretKeys === undefined) {
    problems.push(problemLine(settings.secretKeys, 'is required with a postgres store'));
  }
  return problems;
}

function allOrNone(config: Config, ...names: readonly Name[]): string[] {
  const present = names.find((name) => config[name] !== undefined);
  if (present === undefined) return [];
  const problem = `is required with ${settings[present].variable}`;
  const missing = names.filter((name) => config[name] === undefined);
  return missing.map((name) => problemLine(settings[name], problem));
}

/** Every setting, in the order in which `leat config` prints them. */
const settings = {
  ...listeningSettings,
  ...storeSettings,
  ...tenantSettings,
  ...consoleSettings,
  ...envelopeSettings,
  ...networkSettings,
  ...deliverySettings,
  ...quotaSettings,
  ...retentionSettings,
  ...alertingSettings,
  ...observabilitySettings,
} as const satisfies Record<string, Setting>;

const allSettings = Object.entries<Setting>(settings);
const mayBeEmpty = new Set(
  allSettings.filter(([, setting]) => setting.mayBeEmpty).map(([, setting]) => setting.variable),
);

/** Limits and periods that are not settings. */
export const limits = {
  http: apiLimits,
  response: responseLimits,
  inspector: inspectorLimits,
  resolver: resolverLimits,
  names: nameLimits,
  tokens: tokenLimits,
  delivery: deliveryLimits,
  pull: pullLimits,
  consoleLogin: consoleLoginLimits,
  tls: tlsLimits,
  metrics: metricsLimits,
  monitor: monitorLimits,
  alerts: alertLimits,
  upkeep: upkeepLimits,
  stats: statsLimits,
} as const;
