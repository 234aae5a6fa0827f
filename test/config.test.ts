import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { issuerOf } from '../src/auth/issuer.ts';
import {
  type Config,
  dataFolderOf,
  describeConfig,
  showConfig,
  limits,
  type Loaded,
  readConfig,
  tenantDomainOf,
  usesPlainHttp,
} from '../src/config.ts';

const key = Buffer.alloc(32, 7).toString('base64');
const otherKey = Buffer.alloc(32, 8).toString('base64');

/** With some of them SQLite keeps nothing, or locks nothing. */
const sqliteParameters = [
  'mode=memory',
  'mode=ro',
  'mode=rwc',
  'cache=shared',
  'immutable=1',
  'nolock=1',
  'psow=0',
  'vfs=memdb',
  'vfs=unix-none',
  'modeof=/etc/passwd',
  'mode=rwc&nolock=1',
  '',
];

/** Every variable: its default, valid texts with their values, and invalid texts. */
const variables: Record<
  string,
  { name: keyof Config; fallback?: unknown; good: [string, unknown][]; bad: string[] }
> = {
  LEAT_HOST: {
    name: 'host',
    fallback: '127.0.0.1',
    good: [
      ['0.0.0.0', '0.0.0.0'],
      ['::1', '::1'],
      ['::', '::'],
      ['LocalHost', 'localhost'],
      ['node-1.internal', 'node-1.internal'],
    ],
    bad: ['[::1]', '127.0.0.1:80', '256.0.0.1', '127.1', '0x7f000001', 'a b', 'a/b', '-a', 'ä.de'],
  },
  LEAT_PORT: {
    name: 'port',
    fallback: 8080,
    good: [
      ['1', 1],
      ['65535', 65_535],
    ],
    bad: ['80a', '0', '65536', '08080', '8080\n', '99999999999999999999'],
  },
  LEAT_PUBLIC_URL: {
    name: 'publicUrl',
    good: [
      ['https://Leat.Example.com', 'https://leat.example.com'],
      ['https://leat.example.com:443', 'https://leat.example.com'],
      ['https://leat.example.com:8443', 'https://leat.example.com:8443'],
      ['https://[::1]:8443', 'https://[::1]:8443'],
    ],
    bad: [
      'http://leat.example.com',
      'https://leat.example.com/',
      'https://leat.example.com/api',
      'https://u:p@leat.example.com',
      'https://leat.example.com?a=1',
      'https://leat.example.com#a',
      'https://leat.example.com:0',
      'https://leat.example.com:65536',
      'https://',
      'leat.example.com',
    ],
  },
  LEAT_TLS_CERT: {
    name: 'tlsCertPath',
    good: [['./cert.pem', './cert.pem']],
    bad: ['a\0b', 'a\nb', 'x'.repeat(4097)],
  },
  LEAT_TLS_KEY: {
    name: 'tlsKeyPath',
    good: [['/etc/leat/key.pem', '/etc/leat/key.pem']],
    bad: ['a\0b', 'a\u0085b'],
  },
  LEAT_TLS: { name: 'tls', good: [['local', 'local']], bad: ['Local', 'true', 'local '] },
  LEAT_TRUST_PROXY: {
    name: 'trustProxy',
    fallback: [],
    good: [
      ['false', []],
      ['10.0.0.1', ['10.0.0.1']],
      ['10.0.0.0/8, fd00::/8,::1', ['10.0.0.0/8', 'fd00::/8', '::1']],
    ],
    bad: [
      'true',
      '10.0.0.0/33',
      '10.0.0.0/-1',
      '10.0.0/8',
      'fd00::/129',
      '10.0.0.1,',
      'proxy',
      '1',
    ],
  },
  LEAT_STORE: {
    name: 'store',
    fallback: { engine: 'sqlite', path: './data/leat.db', file: './data/leat.db' },
    good: [
      ['sqlite::memory:', { engine: 'sqlite', path: ':memory:', file: undefined }],
      [
        'sqlite:/var/leat/a b.db',
        { engine: 'sqlite', path: '/var/leat/a b.db', file: '/var/leat/a b.db' },
      ],
      [
        'sqlite:/srv/a#b%20/leat.db',
        { engine: 'sqlite', path: '/srv/a#b%20/leat.db', file: '/srv/a#b%20/leat.db' },
      ],
      [
        'sqlite:file:/var/leat/a%20b%3Fc.db',
        { engine: 'sqlite', path: 'file:/var/leat/a%20b%3Fc.db', file: '/var/leat/a b?c.db' },
      ],
      [
        'sqlite:file:///var/l.db',
        { engine: 'sqlite', path: 'file:///var/l.db', file: '/var/l.db' },
      ],
      ['postgres://u:p@db/leat', { engine: 'postgres', url: 'postgres://u:p@db/leat' }],
      ['postgresql://db:5432/leat', { engine: 'postgres', url: 'postgresql://db:5432/leat' }],
      [
        'postgres://u:p@a,b:5433,[::1]/leat?target_session_attrs=any',
        {
          engine: 'postgres',
          url: 'postgres://u:p@a,b:5433,[::1]/leat?target_session_attrs=any',
        },
      ],
      ['postgres:///leat?host=/run', { engine: 'postgres', url: 'postgres:///leat?host=/run' }],
    ],
    bad: [
      'sqlite:',
      'sqlite',
      'sqlite://data/leat.db',
      'sqlite:./data/',
      ...sqliteParameters.flatMap((parameters) => [
        `sqlite:/srv/leat.db?${parameters}`,
        `sqlite:file:/srv/leat.db?${parameters}`,
      ]),
      'sqlite:?mode=ro',
      'sqlite:/tmp/p/a?b/leat.db',
      'sqlite::memory:?cache=shared',
      'sqlite:file:/tmp/p/a?b/leat.db',
      'sqlite:file::memory:',
      'sqlite:file:%3Amemory%3A',
      'sqlite:file:/tmp/p/a#b/leat.db',
      'sqlite:file:',
      'sqlite:file://elsewhere/leat.db',
      'sqlite:file:%zz',
      'sqlite:a\0b',
      'sqlite:file:a%00b',
      './data/leat.db',
      'mysql://db/leat',
      'postgres:db/leat',
      'postgres://u:p w@db/leat',
      'postgres://u#secret@db/leat',
      'postgres://u/secret@db/leat',
      'postgres://db:99999/leat',
      'postgres://a,b:99999/leat',
      'postgres://a,/leat',
      'postgres://a,b/leat?target_session_attrs=standby',
    ],
  },
  LEAT_STORE_CONNECTIONS: {
    name: 'storeConnections',
    fallback: 13,
    good: [
      ['8', 8],
      ['100', 100],
    ],
    bad: ['7', '101', '12.5', '-12'],
  },
  LEAT_SECRET_KEY: {
    name: 'secretKeys',
    good: [
      [key, [new Uint8Array(32).fill(7)]],
      [`${key},${otherKey}`, [new Uint8Array(32).fill(7), new Uint8Array(32).fill(8)]],
    ],
    bad: [
      Buffer.alloc(31).toString('base64'),
      Buffer.alloc(33).toString('base64'),
      Buffer.alloc(32).toString('hex'),
      key.slice(0, -1),
      `${key}\n`,
      `${key.slice(0, -2)}d=`,
      Buffer.alloc(32, 255).toString('base64url'),
      `${key},`,
      `,${key}`,
      `${key}, ${otherKey}`,
      `${key},${key}`,
      `${key},${otherKey},${Buffer.alloc(32, 9).toString('base64')}`,
    ],
  },
  LEAT_TENANT_NAME: {
    name: 'tenantName',
    fallback: 'main',
    good: [
      ['abc', 'abc'],
      ['a-1'.padEnd(63, 'x'), 'a-1'.padEnd(63, 'x')],
    ],
    bad: ['ab', 'x'.repeat(64), 'Main', 'ma_in', 'ma in', 'main\n', 'mäin'],
  },
  LEAT_UNKNOWN_HOST: {
    name: 'unknownHost',
    fallback: 'first',
    good: [
      ['first', 'first'],
      ['refuse', 'refuse'],
    ],
    bad: ['First', 'none', '404'],
  },
  LEAT_TENANT_DOMAIN: {
    name: 'tenantDomain',
    good: [
      ['Localhost:8080', 'localhost:8080'],
      ['leat.example.com:443', 'leat.example.com'],
      ['[0:0:0:0:0:0:0:1]:8080', '[::1]:8080'],
      ['10.0.0.1', '10.0.0.1'],
    ],
    bad: [
      'https://a.example',
      'a.example/',
      '::1',
      '[::1',
      'a:',
      'a:0',
      'a:65536',
      'a b',
      'a@b',
      ':80',
    ],
  },
  LEAT_BOOTSTRAP_CLIENT_ID: {
    name: 'bootstrapClientId',
    good: [['operator', 'operator']],
    bad: ['a b', 'a\n', 'ä', 'x'.repeat(256)],
  },
  LEAT_BOOTSTRAP_CLIENT_SECRET: {
    name: 'bootstrapClientSecret',
    good: [['correct horse 16', 'correct horse 16']],
    bad: ['fifteen letters', '👍'.repeat(15), `${'x'.repeat(16)}\n`, 'x'.repeat(1025)],
  },
  LEAT_TRUSTED_ISSUERS: {
    name: 'trustedIssuers',
    fallback: [],
    good: [
      ['https://a.example/, https://B.example', ['https://a.example/', 'https://B.example']],
      ['http://localhost:8080/', ['http://localhost:8080/']],
    ],
    bad: [
      'http://a.example/',
      'https://a.example/?x=1',
      'https://a.example/?',
      'https://a.example/#x',
      'https://u@a.example/',
      'a.example',
      'https://a.example/,',
      'ftp://a.example/',
    ],
  },
  LEAT_TRUSTED_ISSUER_CLAIMS: {
    name: 'trustedIssuerClaims',
    fallback: [],
    good: [
      [
        'http://localhost:8080/ client=cid  scope=/a/b, https://b.example audience=x prefix=leat/',
        [
          {
            issuer: 'http://localhost:8080/',
            rules: { client: ['cid'], scope: ['a', 'b'] },
          },
          { issuer: 'https://b.example', rules: { audience: 'x', prefix: 'leat/' } },
        ],
      ],
    ],
    bad: [
      'client=cid',
      'a.example client=cid',
      'https://a.example client',
      'https://a.example client=',
      'https://a.example client=a client=b',
      'https://a.example permissions=a',
      'https://a.example scope=/a~2',
      'https://a.example client=a,https://a.example scope=b',
      'https://a.example client=a,',
    ],
  },
  LEAT_CONSOLE_OIDC_ISSUER: {
    name: 'consoleOidcIssuer',
    good: [
      ['https://login.example.com/', 'https://login.example.com/'],
      ['https://login.example.com/realms/main', 'https://login.example.com/realms/main'],
      ['http://127.0.0.1:3000', 'http://127.0.0.1:3000'],
      ['http://[::1]:3000/', 'http://[::1]:3000/'],
    ],
    bad: [
      'http://login.example.com/',
      'http://127.0.0.1.example.com/',
      'http://localhost@example.com/',
      'https://login.example.com/?x=1',
      'https://login.example.com/#x',
      'login.example.com',
    ],
  },
  LEAT_CONSOLE_OIDC_CLIENT_ID: {
    name: 'consoleOidcClientId',
    good: [['leat-console', 'leat-console']],
    bad: ['a\nb', 'a b', 'é', 'x'.repeat(256)],
  },
  LEAT_CONSOLE_OIDC_CLIENT_SECRET: {
    name: 'consoleOidcClientSecret',
    good: [['a secret', 'a secret']],
    bad: ['a\nb', ' a', 'a ', 'é', 'x'.repeat(1025)],
  },
  LEAT_CONSOLE_OIDC_SCOPES: {
    name: 'consoleOidcScopes',
    good: [
      ['openid', ['openid']],
      [' openid  urn:a:b openid ', ['openid', 'urn:a:b']],
    ],
    bad: ['email', 'openid "a"', 'openid a\tb', 'openid,email', 'openid é'],
  },
  LEAT_CONSOLE_ROLES: {
    name: 'consoleRoles',
    good: [
      [
        'main/groups:leat-admins=operator',
        [
          {
            id: 'main/groups:leat-admins',
            tenantName: 'main',
            claim: ['groups'],
            value: 'leat-admins',
            role: 'operator',
          },
        ],
      ],
    ],
    bad: ['main/groups:leat-admins', 'groups:leat-admins=operator', 'main/groups:a=admin', ','],
  },
  LEAT_SERVICE_NAME: {
    name: 'serviceName',
    fallback: 'leat',
    good: [['auth-0', 'auth-0']],
    bad: ['Leat', '0leat', 'a:b', 'a|b', 'a b', 'x'.repeat(33)],
  },
  LEAT_ATTRIBUTE_PREFIX: {
    name: 'attributePrefix',
    fallback: 'svc',
    good: [['a0', 'a0']],
    bad: ['a', 'A0', '0a', 'a-b', 'a_b', 'abcdefghijk'],
  },
  LEAT_DNS_SERVERS: {
    name: 'dnsServers',
    fallback: [],
    good: [
      ['10.0.0.53', ['10.0.0.53']],
      ['127.0.0.1:5353, ::1,[fd00::53]:53', ['127.0.0.1:5353', '::1', '[fd00::53]:53']],
    ],
    bad: [
      'dns.example',
      '10.0.0.53:',
      '10.0.0.53:0',
      '[::1]',
      '[10.0.0.1]:53',
      '1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4',
      '10.0.0.53/32',
      'udp://10.0.0.53',
    ],
  },
  LEAT_EGRESS_ALLOW: {
    name: 'egressAllow',
    fallback: [],
    good: [['127.0.0.1, ::1/128,10.0.0.0/8', ['127.0.0.1', '::1/128', '10.0.0.0/8']]],
    bad: ['localhost', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0.0/08', 'fe80::1%eth0', '*', '127.1/8'],
  },
  LEAT_EGRESS_DENY: {
    name: 'egressDeny',
    fallback: [],
    good: [['198.51.100.0/24, 2001:db8:7::/48', ['198.51.100.0/24', '2001:db8:7::/48']]],
    bad: ['localhost', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0.0/08', 'fe80::1%eth0', '*', '127.1/8'],
  },
  LEAT_ALLOW_HTTP_ENDPOINTS: {
    name: 'allowHttpEndpoints',
    fallback: false,
    good: [
      ['true', true],
      ['false', false],
    ],
    bad: ['TRUE', 'yes', '1', '0', 'true ', 'on'],
  },
  LEAT_RETRY: {
    name: 'retry',
    good: [
      ['hours', 'hours'],
      ['5, 86400', { delaysSeconds: [5, 86_400] }],
    ],
    bad: ['Hours', '0', '1.5', '86401', '5;10', '5,,10', Array(21).fill('1').join(',')],
  },
  LEAT_RETRY_DELAYS_MS: {
    name: 'retryDelaysMs',
    fallback: [1000, 2000, 4000],
    good: [
      ['0', [0]],
      ['5, 10', [5, 10]],
    ],
    bad: ['5;10', '5,,10', ',', '86400001', Array(21).fill('1').join(',')],
  },
  LEAT_RETRY_4XX: {
    name: 'retry4xx',
    fallback: [408, 429],
    good: [
      ['', []],
      ['400,499', [400, 499]],
    ],
    bad: ['399', '500', '408 429', '4xx'],
  },
  LEAT_ATTEMPT_TIMEOUT_MS: number('attemptTimeoutMs', 10_000, 1, 600_000),
  LEAT_STREAM_CONCURRENCY: number('streamConcurrency', 64, 1, 10_000),
  LEAT_CONCURRENCY: number('concurrency', 1024, 1, 100_000),
  LEAT_CONNECTION_SECONDS: number('connectionSeconds', 60, 1, 86_400),
  LEAT_SENDER_THREADS: {
    name: 'senderThreads',
    good: [
      ['0', 0],
      ['256', 256],
    ],
    bad: ['-1', '257', '1.5', 'two'],
  },
  LEAT_INFLIGHT_BYTES: number('inflightBytesMax', 268_435_456, 1_048_576, 1_099_511_627_776),
  LEAT_DISABLE_CONSECUTIVE: number('disableConsecutive', 500, 1, 1_000_000),
  LEAT_DISABLE_TOTAL: number('disableTotal', 5000, 1, 10_000_000),
  LEAT_MAX_STREAMS: number('maxStreams', 10_000, 1, 1_000_000),
  LEAT_SSE_MAX_CONNECTIONS: number('sseMaxConnections', 100, 1, 100_000),
  LEAT_MAX_CONNECTIONS_PER_ADDRESS: number('maxConnectionsPerAddress', 1000, 1, 1_000_000),
  LEAT_KEEP_ALIVE_SECONDS: number('keepAliveSeconds', 650, 1, 86_400),
  LEAT_MANAGEMENT_TOKEN_SECONDS: number('managementTokenSeconds', 3600, 60, 2_592_000),
  LEAT_RATE_LIMIT_BURST: number('rateLimitBurst', 100, 1, 10_000_000),
  LEAT_RATE_LIMIT_PER_SECOND: number('rateLimitPerSecond', 50, 1, 10_000_000),
  LEAT_TENANT_RATE_BURST: number('tenantRateBurst', 1000, 1, 10_000_000),
  LEAT_TENANT_RATE_PER_SECOND: number('tenantRatePerSecond', 500, 1, 10_000_000),
  LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND: number(
    'publishLimitBytesPerSecond',
    67_108_864,
    1,
    1_000_000_000_000,
  ),
  LEAT_PUBLISH_LIMIT_PER_SECOND: number('publishLimitPerSecond', 100_000, 1, 1_000_000_000),
  LEAT_EVENT_RETENTION_DAYS: number('eventRetentionDays', 7, 1, 3650),
  LEAT_ATTEMPT_RETENTION_DAYS: number('attemptRetentionDays', 3, 1, 3650),
  LEAT_LOG_RETENTION_DAYS: number('logRetentionDays', 30, 1, 3650),
  LEAT_LAG_MAX_DAYS: number('lagMaxDays', 30, 1, 3650),
  LEAT_ALERT_WEBHOOK_URL: {
    name: 'alertWebhookUrl',
    good: [
      ['https://hooks.example.com/T0/B0', 'https://hooks.example.com/T0/B0'],
      ['http://127.0.0.1:9000', 'http://127.0.0.1:9000'],
    ],
    bad: [
      'hooks.example.com',
      'ftp://a/b',
      'https://',
      'https://u:p@a/',
      'https://a b/',
      'javascript:1',
    ],
  },
  LEAT_ALERT_EMAIL: {
    name: 'alertEmail',
    good: [['ops@example.com', 'ops@example.com']],
    bad: ['ops', 'a@b@c', 'a b@c.d', '@c.d', 'a@', 'a@b\nbcc:c@d', 'A <a@b.c>', 'a@b.c,d@e.f'],
  },
  LEAT_SMTP_URL: {
    name: 'smtpUrl',
    good: [
      ['smtp://mail:587', 'smtp://mail:587'],
      ['smtps://u:p@mail', 'smtps://u:p@mail'],
    ],
    bad: [
      'mail:587',
      'smtp://',
      'smtp://mail/path',
      'smtp://mail?x',
      'smtp://u:p/w@mail',
      'http://mail',
    ],
  },
  LEAT_MONITOR_INTERVAL_SECONDS: number('monitorIntervalSeconds', 300, 1, 86_400),
  LEAT_METRICS_HOST: {
    name: 'metricsHost',
    fallback: '127.0.0.1',
    good: [['0.0.0.0', '0.0.0.0']],
    bad: ['a:1', '*', 'http://a'],
  },
  LEAT_METRICS_PORT: {
    name: 'metricsPort',
    good: [['9090', 9090]],
    bad: ['0', '65536', 'off'],
  },
  LEAT_LOG_LEVEL: {
    name: 'logLevel',
    fallback: 'info',
    good: [
      ['debug', 'debug'],
      ['error', 'error'],
    ],
    bad: ['INFO', 'trace', 'toString', '__proto__', 'info '],
  },
  LEAT_WATCHDOG_SECONDS: number('watchdogSeconds', 30, 0, 3600),
  LEAT_LOG_FORMAT: {
    name: 'logFormat',
    fallback: 'auto',
    good: [
      ['json', 'json'],
      ['text', 'text'],
    ],
    bad: ['JSON', 'pretty', '__proto__'],
  },
};

function number(name: keyof Config, fallback: number, min: number, max: number) {
  const good: [string, unknown][] = [
    [`${min}`, min],
    [`${max}`, max],
  ];
  return { name, fallback, good, bad: [`${min - 1}`, `${max + 1}`, '1_000'] };
}

/** Texts that no setting accepts as a number, and most settings not at all. */
const hostileNumbers = [
  ' ',
  ' 8',
  '8 ',
  '\t8',
  '8\n',
  '+8',
  '-8',
  '8.0',
  '8e1',
  '0x8',
  '0b1',
  '08',
  '٨',
  '８',
  '1'.repeat(400),
  'NaN',
  'Infinity',
  'null',
  '8\u0000',
];

/** Settings that a variable requires. */
const consoleOidc = {
  LEAT_CONSOLE_OIDC_ISSUER: 'https://login.example.com/',
  LEAT_CONSOLE_OIDC_CLIENT_ID: 'leat',
  LEAT_CONSOLE_OIDC_CLIENT_SECRET: 'hunter2',
  LEAT_CONSOLE_ROLES: 'main/groups:leat-admins=operator',
};
const requiredWith: Record<string, Record<string, string>> = {
  LEAT_TRUSTED_ISSUER_CLAIMS: {
    LEAT_TRUSTED_ISSUERS:
      'http://localhost:8080/,https://b.example,https://acme.okta.com/oauth2/default',
  },
  LEAT_CONSOLE_OIDC_ISSUER: consoleOidc,
  LEAT_CONSOLE_OIDC_CLIENT_ID: consoleOidc,
  LEAT_CONSOLE_OIDC_CLIENT_SECRET: consoleOidc,
  LEAT_CONSOLE_OIDC_SCOPES: consoleOidc,
  LEAT_CONSOLE_ROLES: consoleOidc,
  LEAT_TLS_CERT: { LEAT_TLS_KEY: 'k' },
  LEAT_TLS_KEY: { LEAT_TLS_CERT: 'c' },
  LEAT_ALERT_EMAIL: { LEAT_SMTP_URL: 'smtp://mail' },
  LEAT_SMTP_URL: { LEAT_ALERT_EMAIL: 'a@b.c' },
  LEAT_BOOTSTRAP_CLIENT_ID: { LEAT_BOOTSTRAP_CLIENT_SECRET: 'correct horse 16' },
  LEAT_BOOTSTRAP_CLIENT_SECRET: { LEAT_BOOTSTRAP_CLIENT_ID: 'operator' },
  LEAT_STORE: { LEAT_SECRET_KEY: key },
};

function load(env: Record<string, string>, dotenvText = ''): Loaded {
  const reading = readConfig(env, dotenvText);
  if ('problems' in reading) assert.fail(reading.problems.join('\n'));
  return reading;
}

function problemsOf(env: Record<string, string>, dotenvText = ''): readonly string[] {
  const reading = readConfig(env, dotenvText);
  return 'problems' in reading ? reading.problems : [];
}

describe('every setting', () => {
  test('every setting is in the table of this test, and no other variable is', () => {
    const listed = describeConfig(load({})).map((line) => line.split(' ')[0] ?? '');
    assert.deepEqual(listed.toSorted(), Object.keys(variables).toSorted());
  });

  for (const [variable, { name, fallback, good, bad }] of Object.entries(variables)) {
    test(`${variable}: has its default when it is absent or empty`, () => {
      assert.deepEqual(load({}).config[name], fallback);
      if (variable !== 'LEAT_RETRY_4XX') {
        assert.deepEqual(load({ [variable]: '' }).config[name], fallback);
      }
    });

    test(`${variable}: accepts valid values`, () => {
      for (const [text, value] of good) {
        const env = { ...requiredWith[variable], [variable]: text };
        assert.deepEqual(load(env).config[name], value, JSON.stringify(text));
      }
    });

    test(`${variable}: rejects invalid values with one line that has the variable and an example`, () => {
      const blanks = ['LEAT_TLS_CERT', 'LEAT_TLS_KEY'].includes(variable) ? [] : [' ', '\u00A0'];
      const numeric = typeof fallback === 'number' ? hostileNumbers : [];
      for (const text of [...bad, ...blanks, ...numeric]) {
        const problems = problemsOf({ ...requiredWith[variable], [variable]: text });
        assert.equal(problems.length, 1, `${JSON.stringify(text)}: ${problems.join('\n')}`);
        assert.match(
          problems[0] ?? '',
          new RegExp(`^${variable}: .+, for example ${variable}=.+$`),
        );
      }
    });

    test(`${variable}: its example is a valid value`, () => {
      const example = / for example \w+=(?<example>.*)$/.exec(
        problemsOf({ ...requiredWith[variable], [variable]: '\u0000' })[0] ?? '',
      )?.groups?.['example'];
      assert.ok(example !== undefined && example !== '');
      if (example.startsWith('$(')) return;
      assert.deepEqual(problemsOf({ ...requiredWith[variable], [variable]: example }), []);
    });
  }
});

describe('an invalid value', () => {
  test('an invalid value is reported in exactly these words', () => {
    const lines: [string, string, string][] = [
      [
        'LEAT_PORT',
        '80a',
        'LEAT_PORT: "80a" is not a whole number from 1 to 65535, for example LEAT_PORT=8080',
      ],
      [
        'LEAT_RETRY_4XX',
        '408,5xx',
        'LEAT_RETRY_4XX: "408,5xx" is wrong in item 2: it is not a whole number from 400 to 499, for example LEAT_RETRY_4XX=408,429',
      ],
      [
        'LEAT_PUBLIC_URL',
        'http://a.example',
        'LEAT_PUBLIC_URL: "http://a.example" is not https://host[:port], for example LEAT_PUBLIC_URL=https://leat.example.com',
      ],
      [
        'LEAT_SECRET_KEY',
        'hunter2',
        'LEAT_SECRET_KEY: the value is not 32 bytes in base64, for example LEAT_SECRET_KEY=$(openssl rand -base64 32)',
      ],
      [
        'LEAT_STORE',
        'mysql://root:hunter2@db/leat',
        'LEAT_STORE: the value is not sqlite:<path> or a postgres:// URL, for example LEAT_STORE=sqlite:./data/leat.db',
      ],
      ...['p#q', 'p/q', 'p?q'].map((password): [string, string, string] => [
        'LEAT_STORE',
        `postgres://root:${password}@db/leat`,
        'LEAT_STORE: the value is not a postgres:// URL: in user, password and parameters # is %23, @ is %40, / is %2F and ? is %3F, for example LEAT_STORE=sqlite:./data/leat.db',
      ]),
      [
        'LEAT_STORE',
        'sqlite:/srv/a?b/leat.db',
        'LEAT_STORE: the value is not sqlite:<path>: the path has a ?, and parameters of SQLite are not accepted; a ? that is part of the path is %3F in a file: URI, as in sqlite:file:/srv/a%3Fb/leat.db, for example LEAT_STORE=sqlite:./data/leat.db',
      ],
      [
        'LEAT_STORE',
        'sqlite:file:/srv/a#b/leat.db',
        'LEAT_STORE: the value is not sqlite:<path>: the path has a # that is not %23 in a file: URI, for example LEAT_STORE=sqlite:./data/leat.db',
      ],
    ];
    for (const [variable, text, line] of lines) {
      assert.deepEqual(problemsOf({ [variable]: text }), [line]);
    }
  });

  test('an invalid value is printed without control characters and truncated at 100 characters', () => {
    const [line = ''] = problemsOf({ LEAT_PORT: `1\n2\u001B[31m\u2028\u202E${'x'.repeat(500)}` });
    assert.ok(line.startsWith('LEAT_PORT: "1\\n2\\u{1b}[31m\\u{2028}\\u{202e}xxx'), line);
    assert.ok(line.length < 220, `${line.length}`);
  });

  test('an invalid value that may hold a secret is not repeated', () => {
    for (const variable of [
      'LEAT_SECRET_KEY',
      'LEAT_BOOTSTRAP_CLIENT_SECRET',
      'LEAT_STORE',
      'LEAT_SMTP_URL',
      'LEAT_ALERT_WEBHOOK_URL',
    ]) {
      const [line = ''] = problemsOf({ ...requiredWith[variable], [variable]: 'hunter2' });
      assert.ok(line.startsWith(`${variable}: the value `), line);
      assert.doesNotMatch(line, /hunter2/);
    }
  });

  test('several invalid values are reported, one line each', () => {
    const problems = problemsOf({ LEAT_PORT: 'a', LEAT_LOG_LEVEL: 'b', LEAT_HOST: 'c d' });
    assert.deepEqual(
      problems.map((line) => line.split(':')[0]),
      ['LEAT_HOST', 'LEAT_PORT', 'LEAT_LOG_LEVEL'],
    );
  });
});

describe('settings that require or exclude each other', () => {
  const conflicts: [string, Record<string, string>, string][] = [
    [
      'a certificate needs its key',
      { LEAT_TLS_CERT: 'c.pem' },
      'LEAT_TLS_KEY: is required with LEAT_TLS_CERT, for example LEAT_TLS_KEY=/etc/leat/key.pem',
    ],
    [
      'a key needs its certificate',
      { LEAT_TLS_KEY: 'k.pem' },
      'LEAT_TLS_CERT: is required with LEAT_TLS_KEY, for example LEAT_TLS_CERT=/etc/leat/cert.pem',
    ],
    [
      'local TLS excludes a certificate',
      { LEAT_TLS: 'local', LEAT_TLS_CERT: 'c.pem', LEAT_TLS_KEY: 'k.pem' },
      'LEAT_TLS: "local" does not go with LEAT_TLS_CERT, for example LEAT_TLS=',
    ],
    [
      'the metrics need a port of their own',
      { LEAT_METRICS_PORT: '8080' },
      'LEAT_METRICS_PORT: 8080 is LEAT_PORT too, choose another, for example LEAT_METRICS_PORT=9090',
    ],
    [
      'the metrics need a port of their own, also where LEAT_PORT is 9090',
      { LEAT_PORT: '9090', LEAT_METRICS_PORT: '9090' },
      'LEAT_METRICS_PORT: 9090 is LEAT_PORT too, choose another, for example LEAT_METRICS_PORT=9091',
    ],
    [
      'an alert address needs a mail server',
      { LEAT_ALERT_EMAIL: 'ops@example.com' },
      'LEAT_SMTP_URL: is required with LEAT_ALERT_EMAIL, for example LEAT_SMTP_URL=smtp://mail.example.com:587',
    ],
    [
      'a mail server needs an alert address',
      { LEAT_SMTP_URL: 'smtp://mail' },
      'LEAT_ALERT_EMAIL: is required with LEAT_SMTP_URL, for example LEAT_ALERT_EMAIL=ops@example.com',
    ],
    [
      'a bootstrap id needs its secret',
      { LEAT_BOOTSTRAP_CLIENT_ID: 'operator' },
      'LEAT_BOOTSTRAP_CLIENT_SECRET: is required with LEAT_BOOTSTRAP_CLIENT_ID, for example LEAT_BOOTSTRAP_CLIENT_SECRET=$(openssl rand -hex 24)',
    ],
    [
      'a bootstrap secret needs its id',
      { LEAT_BOOTSTRAP_CLIENT_SECRET: 'correct horse 16' },
      'LEAT_BOOTSTRAP_CLIENT_ID: is required with LEAT_BOOTSTRAP_CLIENT_SECRET, for example LEAT_BOOTSTRAP_CLIENT_ID=operator',
    ],
    [
      'claims of an issuer need the issuer',
      {
        LEAT_TRUSTED_ISSUERS: 'https://a.example',
        LEAT_TRUSTED_ISSUER_CLAIMS: 'https://a.example/ client=cid',
      },
      'LEAT_TRUSTED_ISSUERS: does not have https://a.example/, which LEAT_TRUSTED_ISSUER_CLAIMS names, for example LEAT_TRUSTED_ISSUERS=https://a.example/',
    ],
    [
      'scopes of the console need a provider',
      { LEAT_CONSOLE_OIDC_SCOPES: 'openid' },
      'LEAT_CONSOLE_OIDC_ISSUER: is required with LEAT_CONSOLE_OIDC_SCOPES, for example LEAT_CONSOLE_OIDC_ISSUER=https://login.example.com/',
    ],
    [
      'the tenant domain is that of the public URL',
      { LEAT_PUBLIC_URL: 'https://a.example:8443', LEAT_TENANT_DOMAIN: 'a.example' },
      'LEAT_TENANT_DOMAIN: "a.example" is not the host of LEAT_PUBLIC_URL, for example LEAT_TENANT_DOMAIN=a.example:8443',
    ],
    [
      'postgres needs a secret key',
      { LEAT_STORE: 'postgres://u:hunter2@db/leat' },
      'LEAT_SECRET_KEY: is required with a postgres store, for example LEAT_SECRET_KEY=$(openssl rand -base64 32)',
    ],
  ];
  for (const [rule, env, line] of conflicts) {
    test(rule, () => assert.deepEqual(problemsOf(env), [line]));
  }

  for (const present of Object.keys(consoleOidc)) {
    test(`sign-in to the console needs all of its settings, not only ${present}`, () => {
      const env = { [present]: consoleOidc[present as keyof typeof consoleOidc] };
      const missing = Object.keys(consoleOidc).filter((variable) => variable !== present);
      const problems = problemsOf(env);
      assert.equal(problems.length, missing.length);
      for (const [index, variable] of missing.entries()) {
        const line = `${variable}: is required with ${present}, for example ${variable}=`;
        assert.ok(problems[index]?.startsWith(line), problems[index] ?? 'no problem');
      }
    });
  }

  test('the tenant domain and the public URL may differ in case and default port', () => {
    const env = { LEAT_PUBLIC_URL: 'https://A.example', LEAT_TENANT_DOMAIN: 'a.EXAMPLE:443' };
    assert.equal(tenantDomainOf(load(env).config), 'a.example');
  });
});

describe('.env', () => {
  test('.env is read, and the environment wins over it', () => {
    const dotenv = 'LEAT_PORT=9000 # comment\nexport LEAT_HOST="0.0.0.0"\n# LEAT_TLS=local\n';
    const { config } = load({ LEAT_PORT: '9001' }, dotenv);
    assert.equal(config.port, 9001);
    assert.equal(config.host, '0.0.0.0');
    assert.equal(config.tls, undefined);
  });

  test('.env applies where a variable of the environment is empty', () => {
    assert.equal(load({ LEAT_PORT: '' }, 'LEAT_PORT=9000').config.port, 9000);
    assert.deepEqual(load({ LEAT_RETRY_4XX: '' }, 'LEAT_RETRY_4XX=408').config.retry4xx, []);
  });

  test('.env may begin with a byte order mark', () => {
    assert.equal(load({}, '\uFEFFLEAT_PORT=9000').config.port, 9000);
  });

  test('invalid values of .env are rejected', () => {
    assert.match(problemsOf({}, 'LEAT_PORT=x')[0] ?? '', /^LEAT_PORT: "x" is not a whole number/);
    assert.deepEqual(problemsOf({ LEAT_PORT: '1' }, 'LEAT_PORT=x'), []);
  });

  test('.env is read from the working directory, and an unreadable one is an error', () => {
    const folder = mkdtempSync(join(tmpdir(), 'leat-config-'));
    try {
      assert.equal(portIn(folder), '8080');
      writeFileSync(join(folder, '.env'), 'LEAT_PORT=9000\n');
      assert.equal(portIn(folder), '9000');
      rmSync(join(folder, '.env'));
      mkdirSync(join(folder, '.env'));
      assert.equal(portIn(folder), '.env: cannot be read (EISDIR), fix or remove it');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

/** Returns the port that a process in a folder reads, or its problems. */
function portIn(folder: string): string {
  const config = new URL('../src/config.ts', import.meta.url).href;
  const script = `const { loadConfig } = await import(${JSON.stringify(config)});
    const reading = loadConfig();
    console.log(reading.problems?.join() ?? reading.config.port);`;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd: folder,
    env: {},
    encoding: 'utf8',
  });
  assert.equal(child.status, 0, child.stderr);
  return child.stdout.trim();
}

describe('a port that browsers refuse', () => {
  const ending = 'a "bad port" of the Fetch Standard; choose another one';
  const line = (variable: string, port: number): string =>
    `${variable}: browsers and programs with fetch do not connect to port ${port}, ${ending}`;

  test('a listening port and that of the first tenant are named in a warning', () => {
    assert.deepEqual(load({ LEAT_PORT: '6000' }).warnings, [line('LEAT_PORT', 6000)]);
    assert.deepEqual(load({ LEAT_METRICS_PORT: '10080' }).warnings, [
      line('LEAT_METRICS_PORT', 10_080),
    ]);
    assert.deepEqual(load({ LEAT_TENANT_DOMAIN: 'leat.example.com:6667' }).warnings, [
      line('LEAT_TENANT_DOMAIN', 6667),
    ]);
    assert.deepEqual(load({ LEAT_PUBLIC_URL: 'https://leat.example.com:6667' }).warnings, [
      line('LEAT_PUBLIC_URL', 6667),
    ]);
  });

  test('other ports cause no warning', () => {
    const env = { LEAT_PORT: '6001', LEAT_METRICS_PORT: '9090', LEAT_TENANT_DOMAIN: 'localhost' };
    assert.deepEqual(load(env).warnings, []);
  });
});

describe('a store in memory', () => {
  test('LEAT_STORE=sqlite::memory: is named in a warning, and a file is not', () => {
    assert.deepEqual(load({ LEAT_STORE: 'sqlite::memory:' }).warnings, [
      'LEAT_STORE: sqlite::memory: is for trials: all events and settings are lost when the process ends; to keep them, set sqlite:<path>',
    ]);
    assert.deepEqual(load({ LEAT_STORE: 'sqlite:memory' }).warnings, []);
  });
});

describe('a variable that is not a setting', () => {
  test('an unknown variable that begins with LEAT_ is named in a warning', () => {
    const { warnings } = load({ LEAT_PROT: '1', leat_port: '2', PORT: '3' }, 'LEAT_HOSTS=a\n');
    assert.deepEqual(warnings, [
      'LEAT_HOSTS is not a setting and has no effect',
      'LEAT_PROT is not a setting and has no effect',
    ]);
  });

  test('the variables of the HTTP commands cause no warning', () => {
    const env = {
      LEAT_URL: 'https://a',
      LEAT_CLIENT_ID: 'b',
      LEAT_CLIENT_SECRET: 'c',
      LEAT_CA: 'd',
    };
    assert.deepEqual(load(env).warnings, []);
  });

  test('a variable that is not a setting names of object properties cause no warning', () => {
    const hostile = Object.fromEntries(['__proto__', 'constructor', 'port'].map((n) => [n, 'x']));
    assert.deepEqual(load(hostile).warnings, []);
  });
});

describe('describeConfig', () => {
  test('describeConfig: shows value, default and meaning of every variable', () => {
    const lines = describeConfig(load({ LEAT_PORT: '9000' }));
    assert.match(lines.join('\n'), /^LEAT_PORT +9000 +port to listen on$/m);
    assert.match(lines.join('\n'), /^LEAT_HOST +127\.0\.0\.1 \(default\) +address to listen on$/m);
    assert.match(lines.join('\n'), /^LEAT_TENANT_DOMAIN +localhost:9000 \(default\) /m);
    assert.match(lines.join('\n'), /^LEAT_SECRET_KEY +generated \(default\) /m);
    assert.match(lines.join('\n'), /^LEAT_METRICS_PORT +not set \(default\) /m);
    assert.match(lines.join('\n'), /^LEAT_EGRESS_ALLOW +empty \(default\) /m);
  });

  test('describeConfig: every meaning begins at the same column', () => {
    const loaded = load({ LEAT_STORE: `sqlite:/${'long/'.repeat(20)}leat.db` });
    const lines = describeConfig(loaded).join('\n').split('\n');
    const meanings = showConfig(loaded).map(({ meaning }) => meaning);
    const columns = meanings.map((meaning) =>
      lines.find((line) => line.endsWith(` ${meaning}`))?.lastIndexOf(` ${meaning}`),
    );
    assert.equal(new Set(columns).size, 1, lines.join('\n'));
  });

  test('describeConfig: masks every secret', () => {
    const env = {
      LEAT_SECRET_KEY: key,
      LEAT_BOOTSTRAP_CLIENT_ID: 'operator',
      LEAT_BOOTSTRAP_CLIENT_SECRET: 'hunter2-hunter2-',
      LEAT_STORE: 'postgres://leat:hunter2@db:5432/leat?sslmode=require&password=hunter2',
      LEAT_ALERT_EMAIL: 'ops@example.com',
      LEAT_SMTP_URL: 'smtp://leat:hunter2@mail.example.com:587',
      LEAT_ALERT_WEBHOOK_URL: 'https://hooks.example.com/T0/hunter2?token=hunter2#hunter2',
      ...consoleOidc,
    };
    const shown = describeConfig(load(env)).join('\n');
    assert.doesNotMatch(shown, /hunter2|leat:/);
    assert.ok(!shown.includes(key));
    assert.match(shown, /^LEAT_SECRET_KEY +\*\*\* /m);
    assert.match(shown, /^LEAT_BOOTSTRAP_CLIENT_ID +operator /m);
    assert.match(shown, /^LEAT_BOOTSTRAP_CLIENT_SECRET +\*\*\* /m);
    assert.match(shown, / postgres:\/\/\*\*\*@db:5432\/leat\?sslmode=require&password=\*\*\*\n/);
    assert.match(shown, / smtp:\/\/\*\*\*@mail\.example\.com:587 /);
    assert.match(shown, / https:\/\/hooks\.example\.com\/\*\*\* /);
  });

  test('describeConfig: masks every accepted user info', () => {
    const part = fc.stringMatching(/^[A-Za-z0-9!$&'()*+,;=:@%~._/?#-]{1,20}$/);
    fc.assert(
      fc.property(part, (password) => {
        const secret = `hunter2${password}`;
        const reading = readConfig({
          LEAT_SECRET_KEY: key,
          LEAT_STORE: `postgres://leat:${secret}@db/leat`,
        });
        const shown = 'problems' in reading ? reading.problems : describeConfig(reading);
        assert.doesNotMatch(shown.join('\n'), /hunter2/);
      }),
      { seed: 16, numRuns: 500 },
    );
  });

  test('describeConfig: keeps each setting on one line', () => {
    const path = `sqlite:./a\u202Eb.db`;
    const lines = describeConfig(load({ LEAT_STORE: path }));
    assert.match(lines.join('\n'), /sqlite:\.\/a\\u\{202e\}b\.db/);
    assert.ok(lines.every((line) => !line.includes('\n')));
  });
});

describe('values derived from the settings', () => {
  const domains: [Record<string, string>, string, string][] = [
    [{}, 'localhost:8080', 'http://localhost:8080/'],
    [{ LEAT_PORT: '9000' }, 'localhost:9000', 'http://localhost:9000/'],
    [{ LEAT_TENANT_DOMAIN: '127.0.0.1:8080' }, '127.0.0.1:8080', 'http://127.0.0.1:8080/'],
    [{ LEAT_TENANT_DOMAIN: '[::1]:8080' }, '[::1]:8080', 'http://[::1]:8080/'],
    [{ LEAT_TENANT_DOMAIN: '[::1]' }, '[::1]', 'http://[::1]/'],
    [{ LEAT_TENANT_DOMAIN: '127.0.0.2' }, '127.0.0.2', 'https://127.0.0.2/'],
    [
      { LEAT_TENANT_DOMAIN: 'localhost.example' },
      'localhost.example',
      'https://localhost.example/',
    ],
    [{ LEAT_PUBLIC_URL: 'https://localhost:8080' }, 'localhost:8080', 'https://localhost:8080/'],
    [{ LEAT_TLS: 'local' }, 'localhost:8080', 'https://localhost:8080/'],
    [{ LEAT_TLS_CERT: 'c', LEAT_TLS_KEY: 'k' }, 'localhost:8080', 'https://localhost:8080/'],
    [{ LEAT_TRUST_PROXY: '127.0.0.1' }, 'localhost:8080', 'https://localhost:8080/'],
  ];
  for (const [env, domain, issuer] of domains) {
    test(`${JSON.stringify(env)} makes the issuer ${issuer}`, () => {
      const { config } = load(env);
      assert.equal(tenantDomainOf(config), domain);
      assert.equal(issuerOf(domain, usesPlainHttp(config, domain)), issuer);
    });
  }

  test('another tenant has https unless its own host is local', () => {
    const { config } = load({});
    assert.equal(usesPlainHttp(config, 'b.example'), false);
    assert.equal(usesPlainHttp(config, 'localhost:9999'), true);
  });

  const folders: [string, string][] = [
    ['sqlite:./data/leat.db', './data'],
    ['sqlite:/var/leat/leat.db', '/var/leat'],
    ['sqlite:leat.db', '.'],
    ['sqlite:file:/var/leat/leat.db', '/var/leat'],
    ['sqlite::memory:', './data'],
    ['postgres://db/leat', './data'],
  ];
  for (const [store, folder] of folders) {
    test(`${store} has the data folder ${folder}`, () => {
      assert.equal(dataFolderOf(load({ LEAT_STORE: store, LEAT_SECRET_KEY: key }).config), folder);
    });
  }

  test('without LEAT_STORE the store is in the default data folder, and leat config shows it', () => {
    const reading = readConfig({}, '', '/home/ada/.local/share/leat');
    assert.ok('config' in reading);
    assert.equal(dataFolderOf(reading.config), '/home/ada/.local/share/leat');
    const line = describeConfig(reading).find((each) => each.startsWith('LEAT_STORE '));
    assert.match(line ?? '', / sqlite:\/home\/ada\/\.local\/share\/leat\/leat\.db \(default\)\n/);
  });

  test('on PostgreSQL the data folder is the default one, whatever it is', () => {
    const env = { LEAT_STORE: 'postgres://db/leat', LEAT_SECRET_KEY: key };
    const reading = readConfig(env, '', '/var/lib/leat');
    assert.ok('config' in reading);
    assert.equal(dataFolderOf(reading.config), '/var/lib/leat');
  });

  test('limits have the documented values', () => {
    assert.equal(limits.http.bodyBytesMax, 1_048_576);
    assert.equal(limits.http.publishBodyBytesMax, 4_194_304);
    assert.equal(limits.response.textBytesMax, 2048);
  });
});

describe('any texts', () => {
  test(
    'readConfig returns a configuration or one-line problems for any texts',
    { tags: ['long'] },
    () => {
      const names = Object.keys(variables);
      const anyText = fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.string(),
        fc.constantFrom(
          ...Object.values(variables).flatMap((v) => [...v.bad, ...v.good.map(([t]) => t)]),
        ),
      );
      const environment = fc.dictionary(fc.constantFrom(...names, 'LEAT_\n', '__proto__'), anyText);
      fc.assert(
        fc.property(environment, fc.string(), (env, dotenv) => {
          const reading = readConfig(env, dotenv);
          const lines = 'problems' in reading ? reading.problems : describeConfig(reading);
          assert.ok(lines.length > 0);
          // The meaning has a line of its own after a long value.
          const whole = lines.flatMap((line) => line.split(/\n(?= {79}\S)/));
          for (const line of whole) assert.match(line, /^[^\p{C}\p{Zl}\p{Zp}]+$/u);
          for (const line of 'warnings' in reading ? reading.warnings : []) {
            assert.match(line, /^[^\p{C}]+$/u);
          }
        }),
        { seed: 16, numRuns: 1000 },
      );
    },
  );
});
