// oxlint-disable max-lines -- the settings are the documentation; it is read in one piece.
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseEnv } from 'node:util';
import type { CliEnv } from './cli/http/session.ts';
import {
  badValue,
  connectionsPerAddress,
  listeningHost,
  printable,
  problemLine,
  type Setting,
  settingLine,
  trustedProxies,
  valueOf,
} from './core/setting.ts';
import {
  cidr,
  domain,
  flag,
  host,
  httpsOrigin,
  httpUrl,
  isLoopback,
  issuerUrl,
  key32,
  list,
  mailAddress,
  oneOf,
  type Parse,
  pattern,
  plainText,
  serverAddress,
  smtpUrl,
  storeLocation,
  tenantName,
  wholeNumber,
} from './core/value.ts';

/** Reads the settings from the environment and from `.env` in the working directory. */
export function loadConfig(): Reading {
  const texts = loadTexts();
  return 'problems' in texts ? texts : configOf(texts);
}

/**
 * Variable to text, of all that is set in the environment and in `.env`. The only place that
 * touches `process.env`.
 */
export function loadTexts(): Texts | { readonly problems: readonly string[] } {
  try {
    return textsOf(process.env, readFileSync('.env', 'utf8'));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    if (error.code === 'ENOENT') return textsOf(process.env, '');
    return { problems: [`.env: cannot be read (${String(error.code)}), mend or remove it`] };
  }
}

/**
 * What the environment says to the commands that work over HTTP. `.env` is not read: a folder that
 * somebody else filled must not decide where secrets go.
 */
export function loadCliEnv(): CliEnv {
  const text = (variable: string): string | undefined => process.env[variable] || undefined;
  const texts = {
    url: text('LEAT_URL'),
    clientId: text('LEAT_CLIENT_ID'),
    clientSecret: text('LEAT_CLIENT_SECRET'),
    caFile: text('LEAT_CA'),
    alertWebhookUrl: text('LEAT_ALERT_WEBHOOK_URL'),
    alertEmail: text('LEAT_ALERT_EMAIL'),
    smtpUrl: text('LEAT_SMTP_URL'),
    configHome: text('XDG_CONFIG_HOME'),
  };
  const given = Object.entries(texts).filter((entry) => entry[1] !== undefined);
  // Any text that is not empty forbids colours (no-color.org).
  return { ...Object.fromEntries(given), noColor: text('NO_COLOR') !== undefined };
}

/** The service has no use for them and finds nothing wrong with them. */
const ofTheCommandLine = ['LEAT_URL', 'LEAT_CLIENT_ID', 'LEAT_CLIENT_SECRET', 'LEAT_CA'];

/**
 * The settings that these texts make. `env` wins over `dotenvText`; an empty text counts as not
 * set. Never throws: each wrong value is one line, and then there is no configuration.
 */
export function readConfig(env: Env, dotenvText = ''): Reading {
  return configOf(textsOf(env, dotenvText));
}

/** Variable to text, of all that is set. May hold secrets. */
export type Texts = ReadonlyMap<string, string>;

function configOf(texts: Texts): Reading {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, setting] of allSettings) {
    const text = texts.get(setting.variable);
    const parsed = valueOf(setting, text);
    if (parsed === 'absent') continue;
    if ('value' in parsed) values[name] = parsed.value;
    else problems.push(badValue(setting, text ?? '', parsed.problem));
  }
  if (problems.length > 0) return { problems };
  // Every member was made by the parser of its name, and those with a default are all there.
  const config = values as unknown as Config;
  const conflicts = conflictsOf(config);
  if (conflicts.length > 0) return { problems: conflicts };
  return { config, texts, warnings: unknownVariables(texts) };
}

/** A configuration, or the lines to show before the program ends with exit code 1. */
export type Reading = Loaded | { readonly problems: readonly string[] };

/** A configuration, the texts it was read from, and what the operator should be warned of. */
export interface Loaded {
  readonly config: Config;
  readonly texts: Texts;
  readonly warnings: readonly string[];
}

/** The settings in force. A member without a default is absent when it is not set. */
export type Config = {
  readonly [N in RequiredName]: ValueOf<(typeof settings)[N]>;
} & { readonly [N in Exclude<Name, RequiredName>]?: ValueOf<(typeof settings)[N]> };

type Env = Readonly<Record<string, string | undefined>>;
type Name = keyof typeof settings;
type RequiredName = {
  [N in Name]: (typeof settings)[N] extends { readonly fallback: string } ? N : never;
}[Name];
type ValueOf<S> = S extends { readonly parse: Parse<infer T> } ? T : never;

/**
 * What `leat config` prints: for every variable the value in force, whether that is the default,
 * and what it means. Secrets are masked.
 */
export function describeConfig({ config, texts }: Loaded): string[] {
  return allSettings.map(([name, setting]) => {
    const fallback = name === 'tenantDomain' ? tenantDomainOf(config) : setting.fallback;
    return settingLine(setting, texts.get(setting.variable), fallback);
  });
}

/** The domain of the first tenant, `host[:port]` in lower case. */
export function tenantDomainOf(
  config: Pick<Config, 'tenantDomain' | 'publicUrl' | 'port'>,
): string {
  const publicDomain = config.publicUrl?.slice('https://'.length);
  return config.tenantDomain ?? publicDomain ?? `localhost:${config.port}`;
}

/** Whether TLS ends in this process. */
export function endsTls({ tls, tlsCertPath }: Pick<Config, 'tls' | 'tlsCertPath'>): boolean {
  return tls !== undefined || tlsCertPath !== undefined;
}

/**
 * Whether a tenant is reached over plain HTTP: a local trial, without TLS, proxy and public URL,
 * under a name of the machine itself. Its issuer then begins with `http://`.
 */
export function usesPlainHttp(config: Reach, tenantDomain: string): boolean {
  const { publicUrl, trustProxy } = config;
  const untouched = !endsTls(config) && publicUrl === undefined && trustProxy.length === 0;
  return untouched && isLoopback(tenantDomain.replace(/:[0-9]+$/, ''));
}

/** What tells how a tenant is reached from outside. */
type Reach = Pick<Config, 'tls' | 'tlsCertPath' | 'trustProxy'> & {
  readonly publicUrl?: string | undefined;
};

/** Where generated keys and credentials are written: beside the SQLite file, else `./data`. */
export function dataFolderOf({ store }: Pick<Config, 'store'>): string {
  return store.engine === 'sqlite' && store.file !== undefined ? dirname(store.file) : './data';
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
    ...ofTheCommandLine,
  ]);
  return [...texts.keys()]
    .filter((variable) => variable.startsWith('LEAT_') && !known.has(variable))
    .map((variable) => `${printable(variable)} is not a setting and has no effect`);
}

/** What no single setting can know: which go together, and which do not. */
function conflictsOf(config: Config): string[] {
  const problems = [
    ...bothOrNone(config, 'tlsCertPath', 'tlsKeyPath'),
    ...bothOrNone(config, 'alertEmail', 'smtpUrl'),
    ...bothOrNone(config, 'bootstrapClientId', 'bootstrapClientSecret'),
  ];
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
  if (config.store.engine === 'postgres' && config.secretKey === undefined) {
    problems.push(problemLine(settings.secretKey, 'is required with a postgres store'));
  }
  return problems;
}

function bothOrNone(config: Config, one: Name, other: Name): string[] {
  const [missing, present] = config[one] === undefined ? [one, other] : [other, one];
  if (config[missing] !== undefined || config[present] === undefined) return [];
  const problem = `is required with ${settings[present].variable}`;
  return [problemLine(settings[missing], problem)];
}

/** Every setting, in the order in which they are shown. */
const settings = {
  host: listeningHost,
  port: {
    variable: 'LEAT_PORT',
    parse: wholeNumber(1, 65_535),
    fallback: '8080',
    doc: 'port to listen on',
  },
  publicUrl: {
    variable: 'LEAT_PUBLIC_URL',
    parse: httpsOrigin,
    example: 'https://leat.example.com',
    doc: 'public URL of the first tenant',
  },
  tlsCertPath: {
    variable: 'LEAT_TLS_CERT',
    parse: plainText(1, 4096),
    example: '/etc/leat/cert.pem',
    doc: 'PEM file of the certificate, with LEAT_TLS_KEY; a renewed one is found within a minute',
  },
  tlsKeyPath: {
    variable: 'LEAT_TLS_KEY',
    parse: plainText(1, 4096),
    example: '/etc/leat/key.pem',
    doc: 'PEM file of the private key, together with LEAT_TLS_CERT',
  },
  tls: {
    variable: 'LEAT_TLS',
    parse: oneOf('local'),
    example: 'local',
    doc: 'local: make a CA and a certificate for the tenant domains in the data folder',
  },
  trustProxy: trustedProxies,
  store: {
    variable: 'LEAT_STORE',
    parse: storeLocation,
    fallback: 'sqlite:./data/leat.db',
    doc: 'sqlite:<path>, sqlite::memory: or postgres://…, also with several hosts; the data folder is that of the file',
    secret: 'user info',
  },
  storeConnections: {
    variable: 'LEAT_STORE_CONNECTIONS',
    parse: wholeNumber(7, 100),
    fallback: '12',
    doc: 'connections of one process to PostgreSQL at most',
  },
  secretKey: {
    variable: 'LEAT_SECRET_KEY',
    parse: key32,
    otherwise: 'generated',
    example: '$(openssl rand -base64 32)',
    doc: 'encrypts stored secrets; generated into the data folder with sqlite',
    secret: 'all',
  },
  tenantName: {
    variable: 'LEAT_TENANT_NAME',
    parse: tenantName,
    fallback: 'main',
    doc: 'name of the first tenant',
  },
  tenantDomain: {
    variable: 'LEAT_TENANT_DOMAIN',
    parse: domain,
    example: 'leat.example.com',
    doc: 'domain of the first tenant; by default that of LEAT_PUBLIC_URL, else localhost:<LEAT_PORT>',
  },
  bootstrapClientId: {
    variable: 'LEAT_BOOTSTRAP_CLIENT_ID',
    parse: pattern('1 to 255 printable ASCII characters', /^[\u0021-\u007E]{1,255}$/),
    otherwise: 'generated',
    example: 'operator',
    doc: 'management client of the first tenant, made when it has none',
  },
  bootstrapClientSecret: {
    variable: 'LEAT_BOOTSTRAP_CLIENT_SECRET',
    parse: plainText(16, 1024),
    otherwise: 'generated',
    example: '$(openssl rand -hex 24)',
    doc: 'secret of that client, at least 16 characters',
    secret: 'all',
  },
  trustedIssuers: {
    variable: 'LEAT_TRUSTED_ISSUERS',
    parse: list(issuerUrl, 100),
    fallback: '',
    example: 'https://login.example.com/',
    doc: 'external issuers whose tokens are accepted, comma separated',
  },
  serviceName: {
    variable: 'LEAT_SERVICE_NAME',
    parse: pattern('a letter and up to 31 of a-z, 0-9 and -', /^[a-z][a-z0-9-]{0,31}$/),
    fallback: 'leat',
    doc: 'source of events, user id provider, metric names',
  },
  attributePrefix: {
    variable: 'LEAT_ATTRIBUTE_PREFIX',
    parse: pattern('a letter and 1 to 9 of a-z and 0-9', /^[a-z][a-z0-9]{1,9}$/),
    fallback: 'svc',
    doc: 'prefix of the envelope attributes: svctenant, svcstream, svcpurpose',
  },
  egressAllow: {
    variable: 'LEAT_EGRESS_ALLOW',
    parse: list(cidr, 1000),
    fallback: '',
    example: '10.20.0.0/16,127.0.0.1',
    doc: 'blocked addresses that webhooks may be sent to all the same, comma separated',
  },
  dnsServers: {
    variable: 'LEAT_DNS_SERVERS',
    parse: list(serverAddress, 3),
    fallback: '',
    example: '10.0.0.53,10.0.0.54:5353',
    doc: 'name servers to ask, comma separated; by default those of the system',
  },
  allowHttpEndpoints: {
    variable: 'LEAT_ALLOW_HTTP_ENDPOINTS',
    parse: flag,
    fallback: 'false',
    example: 'true',
    doc: 'whether webhook endpoints may be http://',
  },
  retryDelaysMs: {
    variable: 'LEAT_RETRY_DELAYS_MS',
    parse: list(wholeNumber(0, 86_400_000), 20),
    fallback: '1000,2000,4000',
    doc: 'waits between attempts in milliseconds; attempts are one more',
  },
  retry4xx: {
    variable: 'LEAT_RETRY_4XX',
    parse: list(wholeNumber(400, 499), 100),
    fallback: '408,429',
    doc: '4xx answers that are tried again; may be empty',
    mayBeEmpty: true,
  },
  attemptTimeoutMs: {
    variable: 'LEAT_ATTEMPT_TIMEOUT_MS',
    parse: wholeNumber(1, 600_000),
    fallback: '10000',
    doc: 'longest time of one attempt in milliseconds',
  },
  streamConcurrency: {
    variable: 'LEAT_STREAM_CONCURRENCY',
    parse: wholeNumber(1, 10_000),
    fallback: '64',
    doc: 'attempts at once, per stream',
  },
  concurrency: {
    variable: 'LEAT_CONCURRENCY',
    parse: wholeNumber(1, 100_000),
    fallback: '1024',
    doc: 'attempts at once, in all',
  },
  inflightBytesMax: {
    variable: 'LEAT_INFLIGHT_BYTES',
    parse: wholeNumber(1_048_576, 1_099_511_627_776),
    fallback: '268435456',
    doc: 'bytes of event bodies in attempts at once, in all; further attempts wait',
  },
  disableConsecutive: {
    variable: 'LEAT_DISABLE_CONSECUTIVE',
    parse: wholeNumber(1, 1_000_000),
    fallback: '500',
    doc: 'failures in a row that disable a stream',
  },
  disableTotal: {
    variable: 'LEAT_DISABLE_TOTAL',
    parse: wholeNumber(1, 10_000_000),
    fallback: '5000',
    doc: 'open failures that disable a stream and keep it from being enabled',
  },
  maxStreams: {
    variable: 'LEAT_MAX_STREAMS',
    parse: wholeNumber(1, 1_000_000),
    fallback: '10000',
    doc: 'streams, per tenant',
  },
  sseMaxConnections: {
    variable: 'LEAT_SSE_MAX_CONNECTIONS',
    parse: wholeNumber(1, 100_000),
    fallback: '100',
    doc: 'open pulls, per tenant on each node; one client has half of them',
  },
  maxConnectionsPerAddress: connectionsPerAddress,
  rateLimitBurst: {
    variable: 'LEAT_RATE_LIMIT_BURST',
    parse: wholeNumber(1, 10_000_000),
    fallback: '100',
    doc: 'management requests at once, per client',
  },
  rateLimitPerSecond: {
    variable: 'LEAT_RATE_LIMIT_PER_SECOND',
    parse: wholeNumber(1, 10_000_000),
    fallback: '50',
    doc: 'management requests per second, per client',
  },
  tenantRateBurst: {
    variable: 'LEAT_TENANT_RATE_BURST',
    parse: wholeNumber(1, 10_000_000),
    fallback: '1000',
    doc: 'management requests at once, of all clients of a tenant; publishing does not count',
  },
  tenantRatePerSecond: {
    variable: 'LEAT_TENANT_RATE_PER_SECOND',
    parse: wholeNumber(1, 10_000_000),
    fallback: '500',
    doc: 'management requests per second, of all clients of a tenant; publishing does not count',
  },
  publishLimitPerSecond: {
    variable: 'LEAT_PUBLISH_LIMIT_PER_SECOND',
    parse: wholeNumber(1, 1_000_000_000),
    fallback: '100000',
    doc: 'published events per second, per tenant',
  },
  publishLimitBytesPerSecond: {
    variable: 'LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND',
    parse: wholeNumber(1, 1_000_000_000_000),
    fallback: '67108864',
    doc: 'bytes of bodies to publish per second, per tenant on each node',
  },
  eventRetentionDays: {
    variable: 'LEAT_EVENT_RETENTION_DAYS',
    parse: wholeNumber(1, 3650),
    fallback: '7',
    doc: 'days the log keeps events; one that an enabled stream has not passed stays longer',
  },
  attemptRetentionDays: {
    variable: 'LEAT_ATTEMPT_RETENTION_DAYS',
    parse: wholeNumber(1, 3650),
    fallback: '3',
    doc: 'days the attempts of delivered events are kept',
  },
  lagMaxDays: {
    variable: 'LEAT_LAG_MAX_DAYS',
    parse: wholeNumber(1, 3650),
    fallback: '30',
    doc: 'an enabled event stream whose oldest undelivered event is older is disabled; alerts at 50, 75 and 90 %',
  },
  alertWebhookUrl: {
    variable: 'LEAT_ALERT_WEBHOOK_URL',
    parse: httpUrl,
    example: 'https://hooks.example.com/T0/B0',
    doc: 'where alerts are posted',
    secret: 'path',
  },
  alertEmail: {
    variable: 'LEAT_ALERT_EMAIL',
    parse: mailAddress,
    example: 'ops@example.com',
    doc: 'where alerts are mailed, together with LEAT_SMTP_URL',
  },
  smtpUrl: {
    variable: 'LEAT_SMTP_URL',
    parse: smtpUrl,
    example: 'smtp://mail.example.com:587',
    doc: 'the server that mails alerts',
    secret: 'user info',
  },
  monitorIntervalSeconds: {
    variable: 'LEAT_MONITOR_INTERVAL_SECONDS',
    parse: wholeNumber(1, 86_400),
    fallback: '300',
    doc: 'seconds between two looks at the failures',
  },
  metricsHost: {
    variable: 'LEAT_METRICS_HOST',
    parse: host,
    fallback: '127.0.0.1',
    doc: 'address of the metrics listener',
  },
  metricsPort: {
    variable: 'LEAT_METRICS_PORT',
    parse: wholeNumber(1, 65_535),
    example: '9090',
    doc: 'port of the metrics listener; without it there is none',
  },
  logLevel: {
    variable: 'LEAT_LOG_LEVEL',
    parse: oneOf('debug', 'info', 'warn', 'error'),
    fallback: 'info',
    doc: 'debug, info, warn or error',
  },
} as const satisfies Record<string, Setting>;

const allSettings = Object.entries<Setting>(settings);
const mayBeEmpty = new Set(
  allSettings.filter(([, setting]) => setting.mayBeEmpty).map(([, setting]) => setting.variable),
);

const KIB = 1024;
const MIB = 1024 * KIB;

/** What is bounded without being a setting. `main.ts` hands each room its part. */
export const limits = {
  /** Requests to the management API and the token endpoint. */
  http: {
    bodyBytesMax: MIB,
    publishBodyBytesMax: 4 * MIB,
    testEventBodyBytesMax: 256 * KIB,
    tokenBodyBytesMax: 64 * KIB,
    /** Bodies of a node that come, or wait for their turn. */
    bodiesBytesMax: 256 * MIB,
    /** One published event as JSON. */
    eventBytesMax: 256 * KIB,
    /** Events in one request. */
    publishEventsMax: 1000,
    /** `take` when it is not sent, and at most. */
    pageItems: 50,
    pageItemsMax: 100,
    /** A page of a list: one by key ends early, one by number is refused. */
    pageBytesMax: 8 * MIB,
    /** Bytes of answers that wait for one client; above it the connection is closed. */
    unreadBytesMax: 16 * MIB,
    /** Such bytes of a node. */
    unreadOfAllBytesMax: 256 * MIB,
    /** Failures in the bare list; attempts shown of one failure, the newest. */
    failuresListedMax: 100,
    attemptsListedMax: 100,
    /** A larger tenant's users are sorted by what has an index only: some 20 ms on SQLite. */
    sortedUsersMax: 5000,
    sortedBytesMax: 4 * MIB,
    /** Rate limit buckets kept; the fullest are dropped first. */
    rateBucketsMax: 100_000,
    /** When the service ends, requests under way have this long to end too. */
    closingMs: 5_000,
  },
  /** The answer of a webhook. */
  answer: {
    /** Read before the connection is dropped and the status decides. */
    bodyBytesMax: 64 * KIB,
    /** Kept as text for the error message. */
    textBytesMax: 2 * KIB,
    /** The longest wait a `Retry-After` can ask for. */
    retryAfterMsMax: 60_000,
  },
  /** One name lookup. */
  resolver: {
    /** Taken of an answer, of each family. */
    addressesMax: 8,
  },
  /** Name lookups of a node. */
  names: {
    /**
     * By how long the lookups of a name take: how many may be under way on the node, and for one
     * tenant or the service itself. Each number includes the ones after it.
     */
    classes: [
      { belowMs: 50, atOnce: 64, atOncePerOwner: 8 },
      { belowMs: 200, atOnce: 56, atOncePerOwner: 7 },
      { belowMs: 400, atOnce: 48, atOncePerOwner: 6 },
      // Here are all names when the first name server is away: the next one is asked after 700 ms.
      { belowMs: 1000, atOnce: 32, atOncePerOwner: 4 },
      { belowMs: Infinity, atOnce: 16, atOncePerOwner: 2 },
    ],
    /** Names that were never looked up begin in the second class. */
    unknownClass: 1,
    /** A lookup of the last class. */
    timeoutMs: 5000,
    /** Addresses are valid this long, failures that long. */
    keptMs: 5000,
    failureKeptMs: 1000,
    /** Addresses this old are used while they are refreshed, or cannot be. */
    usableMs: 60_000,
    /** Names remembered, some 300 bytes each. */
    namesMax: 50_000,
  },
  /** The dispatcher and its runners. */
  delivery: {
    /** An attempt gets a row, so that the cursor can pass it, after this time… */
    parkAfterMs: 1000,
    /** …or as soon as this many later events of its stream have settled. */
    parkAfterEvents: 256,
    /** Results gather this long, or until there are this many, for one transaction. */
    settleMs: 10,
    settleMax: 256,
    /** Attempts at once of a stream whose receiver is slow, at least. */
    slowSlots: 4,
    /** A stream pauses for so long after as many attempts in a row that failed without a response… */
    unansweredBackoffMs: 250,
    /** …or longer: of all such streams of a tenant so many attempts begin in a second. */
    unansweredPerSecond: 256,
    /** Counted for a row until it is claimed and the size of its body is known. */
    claimedBytes: 256 * KIB,
    /** A parked row is due this long after its attempt must have ended. */
    leaseGraceMs: 5000,
    /** Events in memory per tenant, by count and by bytes. */
    tailEventsMax: 10_000,
    tailBytesMax: 32 * MIB,
    /** Events read from the store at once, by count and by bytes. */
    pageEvents: 1000,
    pageBytes: 4 * MIB,
    /** A cursor with nothing to do is written after so many offsets, or so long. */
    lagOffsetsMax: 10_000,
    lagMs: 60_000,
    /** The lease of a node, when it stops by itself, and how often it renews. */
    leaseMs: 10_000,
    leaseStopMs: 7000,
    heartbeatMs: 2500,
    /** The backstop of wake-ups that got lost. */
    pollMs: 5000,
  },
  /** Clients that read the log as server-sent events. */
  pull: {
    heartbeatMs: 15_000,
    /** A healthy connection ends between these two times. */
    lifetimeMs: 300_000,
    spreadMs: 30_000,
    /**
     * What may wait for a client, and how long nothing of it may move. The system tells of what a
     * client takes in steps of some 100 KiB, and Node of the last step up to once more this time
     * later: it is 5 to 10 s.
     */
    waitingBytesMax: MIB,
    stalledMs: 5_000,
    /** Readers are sent away when the store is away for so long. */
    outageMs: 30_000,
    /** Events in memory per tenant with readers, by count and by bytes. */
    tailEventsMax: 2_000,
    tailBytesMax: 4 * MIB,
    /** Events read from the store at once for one reader, by count and by bytes. */
    pageEvents: 500,
    pageBytes: 128 * KIB,
    /** Clients without the right to read are cut off within 2 s: their rows are at most 1 s old. */
    tickMs: 500,
    pollMs: 5_000,
  },
  /** The certificate of the service itself. */
  tls: {
    /** A renewed one is found within this time. */
    everyMs: 60_000,
  },
  metrics: {
    /** Streams whose lag is told of each, at the most. */
    streamsMax: 200,
  },
  /** Looking at the failures, and telling of them. */
  monitor: {
    /** A node that died in the middle of a look is waited for so long. */
    leaseMs: 30_000,
    /** Failures read at once, each with its event. */
    pageFailures: 50,
  },
  /** Sending alerts. */
  alerts: {
    /** Under way at once, for each place. */
    atOnce: 4,
    timeoutMs: 10_000,
    /** After so many in a row a place is left alone until the next look. */
    failuresInARowMax: 16,
    /** A look sends so long; what is left waits for the next one. */
    runMs: 60_000,
    /** What was sent is recorded so often. */
    turnMs: 5_000,
    /** When the service ends, alerts under way have this long to end too. */
    closingMs: 3_000,
  },
  /** Keeping the store within its retention. */
  upkeep: {
    everyMs: 60_000,
    /** A node that died while it did upkeep is waited for this long. */
    leaseMs: 60_000,
    /** Rows of one step, so that other work never waits long. */
    stepRows: 500,
  },
} as const;
