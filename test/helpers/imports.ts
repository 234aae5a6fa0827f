import { posix } from 'node:path';

/**
 * Checks a file against the dependency rule: which modules each folder may import, and which names
 * only a few files may use. Paths are relative to `src/`.
 *
 * @returns one sentence for each violation
 */
export function violationsOf(path: string, source: string): string[] {
  const rule = rules.find((candidate) => matches(candidate.files, path));
  if (rule === undefined) return [`${path} has no import rule`];
  return [
    ...nameViolations(path),
    ...importsOf(source).flatMap((line) => importViolations(path, rule, line)),
    ...textViolations(path, source),
  ];
}

/** One import, re-export or dynamic import. `names` is empty for a dynamic or bare import. */
export interface Import {
  readonly specifier: string;
  readonly typeOnly: boolean;
  readonly names: readonly string[];
}

/**
 * Reads the imports of a file from its text: TypeScript 7 has no parser API, and the imports of this
 * code base are literal. A dynamic import that is not literal has the specifier `?`.
 */
export function importsOf(source: string): Import[] {
  const code = withoutComments(source);
  const found: Import[] = [];
  for (const match of code.matchAll(STATIC_IMPORT)) {
    const clause = match.groups?.['clause'] ?? '';
    found.push({
      specifier: match.groups?.['specifier'] ?? match.groups?.['bare'] ?? '?',
      typeOnly: /^\s*type\b/.test(clause),
      names: valueNames(clause),
    });
  }
  for (const match of code.matchAll(DYNAMIC_IMPORT)) {
    found.push({ specifier: match.groups?.['specifier'] ?? '?', typeOnly: false, names: [] });
  }
  return found;
}

const STATIC_IMPORT =
  /^\s*(?:import|export)\b(?<clause>[^'"`;=()]*?)\bfrom\s*['"](?<specifier>[^'"]+)['"]|^\s*import\s*['"](?<bare>[^'"]+)['"]/gm;
const DYNAMIC_IMPORT =
  /\b(?:import|require|getBuiltinModule|createRequire)\s*\(\s*(?:['"](?<specifier>[^'"]+)['"])?/g;

interface Rule {
  /** The files of the rule: a file, `folder/`, or `folder/*.ts` without sub-folders. */
  readonly files: string;
  /** Files of `src/` that they may import, in addition to `files`. */
  readonly own?: readonly string[];
  /** Files of `src/` whose types they may import. */
  readonly types?: readonly string[];
  /** npm packages and guarded builtins that they may import; `@scope/` matches a whole scope. */
  readonly packages?: readonly string[];
  /** Builtins that they may import; absent: all that are not guarded. */
  readonly builtins?: readonly string[];
}

const NETWORK = ['node:net', 'node:tls', 'node:dns', 'node:dns/promises'];
const HTTP = ['node:http', 'node:https'];
const GUARDED = [
  ...NETWORK,
  ...HTTP,
  'node:http2',
  'node:dgram',
  'node:sqlite',
  'node:child_process',
  'node:worker_threads',
  'node:cluster',
  'node:vm',
  'node:module',
  // Time and environment are arguments: core/clock.ts and config.ts.
  'node:timers',
  'node:timers/promises',
  'node:perf_hooks',
  'node:process',
];
const FASTIFY = ['fastify', '@fastify/'];
/** Assertions do no I/O. */
const ASSERT = ['node:assert', 'node:assert/strict'];

/** Code that both engines import; neither imports the other. */
const ENGINE_SHARED = [
  'store/*.ts',
  'store/commands/',
  'store/migrate-store/',
  'store/port/',
  'store/rows/',
  'store/rules/',
];

/** The first rule whose `files` match applies. */
const rules: readonly Rule[] = [
  // Hashing does no I/O: signatures and ids derived from a key stay pure.
  { files: 'core/sign.ts', own: ['core/'], builtins: [...ASSERT, 'node:crypto'] },
  { files: 'core/verify.ts', own: ['core/'], builtins: [...ASSERT, 'node:crypto'] },
  { files: 'core/order-key.ts', own: ['core/'], builtins: ['node:crypto'] },
  { files: 'core/ids.ts', own: ['core/'], builtins: [...ASSERT, 'node:crypto'] },
  { files: 'core/mailbox.ts', builtins: ['node:url'] },
  // Files of the program itself, which do not change while it runs.
  { files: 'core/asset.ts', builtins: ['node:fs', 'node:sea'] },
  { files: 'core/', builtins: ASSERT },
  // The names of channels are those of a table.
  {
    files: 'schemas/alert-test.ts',
    own: ['core/alert-channels.ts', 'schemas/schema.ts'],
    packages: ['typebox'],
    builtins: [],
  },
  { files: 'schemas/', types: ['core/'], packages: ['typebox'], builtins: [] },
  { files: 'store/port/', own: ['core/'], builtins: [] },
  // Commands of both engines: what they do not share comes as an argument.
  {
    files: 'store/commands/',
    own: [
      'core/',
      'store/port/',
      'store/rows/',
      'store/rules/',
      'store/key-check.ts',
      'store/seal.ts',
      'store/sealed-columns.ts',
      'store/access-tables.ts',
      'store/table.ts',
      'store/tables.ts',
    ],
    packages: ['lru-cache'],
    builtins: [],
  },
  { files: 'store/engine/sqlite/', own: ['core/', ...ENGINE_SHARED], packages: ['node:sqlite'] },
  { files: 'store/engine/postgres/', own: ['core/', ...ENGINE_SHARED], packages: ['pg'] },
  { files: 'store/', own: ['core/', 'store/'] },
  // Delivery and pull share log tails and the limit on concurrent reads.
  { files: 'log/', own: ['core/'], builtins: ASSERT },
  {
    files: 'delivery/http/fetch.ts',
    own: ['core/address.ts', 'delivery/http/interim-responses.ts'],
    packages: ['undici', 'node:net'],
  },
  {
    files: 'delivery/http/interim-responses.ts',
    own: ['delivery/http/'],
    packages: ['undici', 'node:net'],
  },
  {
    files: 'delivery/http/token-endpoint.ts',
    own: ['core/', 'delivery/http/', 'log/'],
    packages: ['undici', ...NETWORK],
  },
  {
    files: 'delivery/http/http-connection.ts',
    own: ['core/', 'delivery/http/'],
    packages: ['undici', ...NETWORK],
  },
  { files: 'delivery/http/', own: ['core/', 'log/'], packages: NETWORK },
  // The program of a thread has the clock of the machine, as main.ts has.
  {
    files: 'delivery/threads/sender-thread.ts',
    own: ['clock.ts', 'core/', 'delivery/'],
    packages: ['node:worker_threads'],
  },
  {
    files: 'delivery/threads/',
    own: ['core/', 'delivery/'],
    packages: ['node:worker_threads'],
  },
  { files: 'delivery/', own: ['core/', 'log/', 'store/port/'], packages: NETWORK },
  { files: 'pull/', own: ['core/', 'log/', 'store/port/'], builtins: ASSERT },
  { files: 'stats/', own: ['core/', 'store/port/'], types: ['delivery/report.ts'] },
  // A client of the operator's identity provider; the package is certified for what it checks.
  { files: 'auth/openid-provider.ts', own: ['core/', 'auth/'], packages: ['openid-client'] },
  { files: 'auth/', own: ['core/', 'store/port/'], packages: ['jose', 'lru-cache'] },
  // Slow work runs in a thread.
  {
    files: 'api/event-bodies.ts',
    own: ['core/', 'api/'],
    packages: ['node:worker_threads'],
  },
  { files: 'api/event-thread.ts', own: ['core/', 'api/'], packages: ['node:worker_threads'] },
  {
    files: 'api/',
    own: ['core/', 'store/port/', 'auth/', 'pull/', 'schemas/'],
    packages: [...FASTIFY, ...NETWORK, ...HTTP, 'lru-cache'],
  },
  // Both APIs limit connections with the same code.
  {
    files: 'messages/',
    own: [
      'api/http/connection-guard.ts',
      'api/http/fast-path.ts',
      'api/http/last-response.ts',
      'core/',
      'store/port/',
      'auth/',
      'schemas/',
    ],
    packages: [...FASTIFY, ...NETWORK, ...HTTP],
  },
  { files: 'files/', own: ['core/'] },
  { files: 'tls/x509.ts', own: ['core/'], packages: ['asn1js', 'pkijs'] },
  { files: 'tls/', own: ['core/', 'files/'], packages: NETWORK },
  {
    files: 'alerting/mail-channel.ts',
    own: ['core/', 'alerting/'],
    packages: ['nodemailer', ...NETWORK],
  },
  { files: 'alerting/', own: ['core/', 'store/port/'], packages: ['pino'] },
  { files: 'upkeep/', own: ['core/', 'store/port/', 'alerting/'], packages: ['pino'] },
  {
    files: 'metrics/',
    own: ['api/http/last-response.ts', 'api/http/request-guard.ts', 'core/', 'store/port/'],
    types: ['delivery/'],
    packages: ['prom-client', ...NETWORK, ...HTTP],
  },
  // Asks node:http whether Node uses the proxies of the environment.
  {
    files: 'cli/http/connection.ts',
    own: ['core/address.ts', 'cli/http/localhost.ts', 'delivery/http/interim-responses.ts'],
    packages: ['node:http', 'undici'],
  },
  {
    files: 'cli/http/',
    own: ['cli/', 'core/', 'files/'],
    packages: ['eventsource-parser', 'node:tls', 'undici'],
  },
  { files: 'cli/webhook.ts', own: ['cli/', 'core/'], packages: ['node:http'] },
  { files: 'cli/listen.ts', own: ['cli/', 'core/'], packages: ['commander', 'node:http'] },
  { files: 'cli/', own: ['core/', 'files/', 'schemas/'], packages: ['commander'] },
  // Runs in browsers: of the service it has the pure rules, and the shapes as types.
  {
    files: 'console/',
    own: ['core/'],
    types: ['schemas/'],
    packages: [
      'preact',
      'preact-iso',
      '@preact/signals',
      '@tanstack/query-core',
      'eventsource-parser',
      'uplot',
    ],
    builtins: [],
  },
  { files: 'settings/', own: ['core/'], builtins: [] },
  {
    files: 'config.ts',
    own: ['core/', 'files/default-data-folder.ts', 'files/home-folder.ts', 'settings/'],
    types: ['cli/env.ts'],
  },
  { files: 'clock.ts', own: ['core/'], packages: ['node:perf_hooks', 'node:timers'] },
  // The operator's commands, in the server or on the store.
  {
    files: 'operator/program.ts',
    own: ['core/', 'operator/', 'cli/errors.ts', 'store/engine/sqlite/vacuum.ts'],
    types: ['alerting/channel.ts', 'cli/terminal/', 'config.ts', 'program/admin.ts'],
    packages: ['commander', ...NETWORK],
  },
  {
    files: 'operator/',
    own: [
      'alerting/',
      'auth/',
      'config.ts',
      'core/',
      'delivery/http/egress.ts',
      'files/',
      'store/open.ts',
      'store/port/',
      'store/engine/sqlite/copy-check.ts',
      'tls/',
      'upkeep/',
    ],
    types: ['program/admin.ts'],
    packages: ['pino', ...NETWORK, ...HTTP],
  },
  // The programs connect all other folders.
  { files: 'program/compile-cache.ts', own: ['files/made-folders.ts'], packages: ['node:module'] },
  { files: 'program/commands.ts', own: [''], packages: ['commander'] },
  {
    files: 'program/watchdog.ts',
    own: ['core/', 'program/'],
    packages: ['pino', 'node:worker_threads'],
  },
  {
    files: 'program/watchdog-thread.ts',
    own: ['core/', 'program/log-text.ts'],
    packages: ['node:worker_threads', 'node:inspector'],
  },
  {
    files: 'program/',
    own: ['', '../package.json'],
    packages: ['pino', 'node:child_process', ...NETWORK, ...HTTP],
  },
  { files: 'main.ts', own: ['', '../package.json'] },
];

/** Randomness is an argument too (core/clock.ts): only clock.ts imports these. */
const RANDOM_NAMES = ['randomBytes', 'randomInt', 'randomUUID', 'randomFill', 'randomFillSync'];

function importViolations(path: string, rule: Rule, line: Import): string[] {
  if (mayImport(path, rule, line) && mayUseRandomness(path, line)) return [];
  const specifier = line.specifier === '?' ? 'a specifier that is not literal' : line.specifier;
  return [`${path} may not import ${specifier}`];
}

function mayImport(path: string, rule: Rule, { specifier, typeOnly }: Import): boolean {
  if (specifier === '?') return false;
  if (specifier.startsWith('.')) {
    const target = posix.join(posix.dirname(path), specifier);
    const own = [rule.files, ...(rule.own ?? []), ...(typeOnly ? (rule.types ?? []) : [])];
    return own.some((pattern) => matches(pattern, target));
  }
  if ((rule.packages ?? []).some((name) => isPackage(name, specifier))) return true;
  if (!specifier.startsWith('node:')) return false;
  return rule.builtins?.includes(specifier) ?? !GUARDED.includes(specifier);
}

function mayUseRandomness(path: string, { specifier, names }: Import): boolean {
  if (specifier !== 'node:crypto' || path === 'clock.ts') return true;
  const wholeModule = names.some((name) => name === '*' || name === 'default');
  return !wholeModule && !names.some((name) => RANDOM_NAMES.includes(name));
}

function matches(pattern: string, path: string): boolean {
  if (pattern === '') return !path.startsWith('..');
  if (pattern.endsWith('/*.ts')) {
    return posix.dirname(path) === pattern.slice(0, -'/*.ts'.length) && path.endsWith('.ts');
  }
  return pattern.endsWith('/') ? path.startsWith(pattern) : path === pattern;
}

function isPackage(name: string, specifier: string): boolean {
  if (name.startsWith('node:')) return specifier === name;
  return specifier === name || specifier.startsWith(name.endsWith('/') ? name : `${name}/`);
}

/** Returns the value names of an import clause: `* as x` counts as `*`, `x` as `default`. */
function valueNames(clause: string): string[] {
  if (/^\s*type\b/.test(clause)) return [];
  const braces = /\{(?<list>[^}]*)\}/.exec(clause)?.groups?.['list'] ?? '';
  const listed = braces
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && !name.startsWith('type '))
    .map((name) => name.split(/\s+as\s+/)[0] ?? name);
  const rest = clause.replace(/\{[^}]*\}/, '').replaceAll(/[\s,]/g, '');
  if (rest === '') return listed;
  return [...listed, rest.startsWith('*') ? '*' : 'default'];
}

interface Name {
  readonly text: RegExp;
  readonly files: readonly string[];
  readonly label: string;
}

const PROGRAMS = [
  'clock.ts',
  'console/clock.ts',
  'main.ts',
  'program/demo.ts',
  'program/watchdog-thread.ts',
];
const names: readonly Name[] = [
  { text: /\bDate\.now\b/, files: PROGRAMS, label: 'Date.now' },
  { text: /\bnew Date(?:\(\s*\)|\b(?!\s*\())/, files: PROGRAMS, label: 'new Date()' },
  { text: /(?<![.\w]|new )Date\(/, files: PROGRAMS, label: 'Date()' },
  { text: /\bperformance\.now\b|\bhrtime\b/, files: PROGRAMS, label: 'performance.now' },
  { text: /\bMath\.random\b/, files: PROGRAMS, label: 'Math.random' },
  { text: /\brandomUUID\b|\bgetRandomValues\b/, files: PROGRAMS, label: 'randomUUID' },
  {
    text: /(?:globalThis\.|(?<![.\w]))set(?:Timeout|Interval)\b/,
    files: PROGRAMS,
    label: 'setTimeout or setInterval',
  },
  { text: /\bprocess\s*(?:\??\.|\[\s*['"`])\s*env\b/, files: ['config.ts'], label: 'process.env' },
];

function textViolations(path: string, source: string): string[] {
  const code = withoutComments(source);
  return names
    .filter((name) => !name.files.includes(path) && name.text.test(code))
    .map((name) => `${path} may not use ${name.label}: only ${name.files.join(', ')} may`);
}

/** File names that do not describe the content. */
const EMPTY_NAMES = ['utils', 'util', 'common', 'helpers', 'helper', 'index', 'misc'];

function nameViolations(path: string): string[] {
  const empty = path.split('/').find((part) => EMPTY_NAMES.includes(part.split('.')[0] ?? ''));
  return empty === undefined ? [] : [`${path}: the name ${empty} does not describe the content`];
}

/** Removes lines that are only a comment, as they are formatted. */
function withoutComments(source: string): string {
  return source.replaceAll(/^\s*(?:\/\/|\/\*|\*).*$/gm, '');
}
