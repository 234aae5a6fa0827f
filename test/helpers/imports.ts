import { posix } from 'node:path';

/**
 * The dependency rule as a pure function: which room may import what, and which names belong to a
 * few files alone. Paths are relative to `src/`.
 *
 * @returns one sentence for each violation, none for a file that keeps the rule
 */
export function violationsOf(path: string, source: string): string[] {
  const rule = rules.find((candidate) => matches(candidate.files, path));
  if (rule === undefined) return [`${path} belongs to no room`];
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
 * The imports of a file, read from its text: TypeScript 7 has no parser to ask, and imports in
 * this house are literal. A dynamic import that is not literal has the specifier `?`.
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
  /** Which files the rule is for: a file, `room/` for a folder, `room/*.ts` without sub-folders. */
  readonly files: string;
  /** Files of `src/` they may import, besides those of their own `files`. */
  readonly own?: readonly string[];
  /** Files of `src/` they may import types of. */
  readonly types?: readonly string[];
  /** npm packages and guarded builtins they may import; `@scope/` stands for all of a scope. */
  readonly packages?: readonly string[];
  /** The builtins they may import; absent means all that are not guarded. */
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
  // Time and the environment come as arguments: core/clock.ts and config.ts.
  'node:timers',
  'node:timers/promises',
  'node:perf_hooks',
  'node:process',
];
const FASTIFY = ['fastify', '@fastify/'];
/** Assertions are no I/O: they say what cannot happen. */
const ASSERT = ['node:assert', 'node:assert/strict'];

/** What the engines share; neither knows the other. */
const ENGINE_SHARED = [
  'store/*.ts',
  'store/directory/',
  'store/migrate-store/',
  'store/port/',
  'store/rows/',
  'store/rules/',
];

/** The first rule whose `files` match is the one that counts. */
const rules: readonly Rule[] = [
  // Hashing is arithmetic: the signature of a webhook and an id made from a key stay pure.
  { files: 'core/sign.ts', own: ['core/'], builtins: [...ASSERT, 'node:crypto'] },
  { files: 'core/ids.ts', own: ['core/'], builtins: [...ASSERT, 'node:crypto'] },
  { files: 'core/', builtins: ASSERT },
  { files: 'schemas/', types: ['core/'], packages: ['typebox'], builtins: [] },
  { files: 'store/port/', own: ['core/'], builtins: [] },
  // Commands of both engines: what they do not share comes as an argument.
  {
    files: 'store/directory/',
    own: ['core/', 'store/port/', 'store/rows/', 'store/rules/', 'store/seal.ts'],
    builtins: [],
  },
  { files: 'store/sqlite/', own: ['core/', ...ENGINE_SHARED], packages: ['node:sqlite'] },
  { files: 'store/postgres/', own: ['core/', ...ENGINE_SHARED], packages: ['pg'] },
  { files: 'store/', own: ['core/', 'store/'] },
  // The end of a log in memory is one thing, whoever waits there, and so is taking turns in reading.
  { files: 'log/', own: ['core/'], builtins: ASSERT },
  { files: 'delivery/http/fetch.ts', packages: ['undici', 'node:net'] },
  {
    files: 'delivery/http/transport.ts',
    own: ['core/', 'delivery/', 'log/', 'store/port/'],
    packages: ['undici', ...NETWORK],
  },
  { files: 'delivery/http/', own: ['core/', 'log/'], packages: NETWORK },
  { files: 'delivery/', own: ['core/', 'log/', 'store/port/'], packages: NETWORK },
  { files: 'pull/', own: ['core/', 'log/', 'store/port/'], builtins: ASSERT },
  { files: 'auth/', own: ['core/', 'store/port/'], packages: ['jose', 'lru-cache'] },
  // What is known to take long is done in a thread.
  {
    files: 'api/event-bodies.ts',
    own: ['core/', 'api/'],
    packages: ['node:worker_threads'],
  },
  { files: 'api/event-thread.ts', own: ['core/', 'api/'], packages: ['node:worker_threads'] },
  {
    files: 'api/',
    own: ['core/', 'store/port/', 'auth/', 'pull/', 'schemas/'],
    packages: [...FASTIFY, ...NETWORK, ...HTTP],
  },
  // Both APIs bound their connections alike.
  {
    files: 'messages/',
    own: ['api/http/connection-guard.ts', 'core/', 'store/port/', 'auth/', 'schemas/'],
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
    own: ['core/', 'store/port/'],
    types: ['delivery/'],
    packages: ['prom-client', ...NETWORK, ...HTTP],
  },
  // It sends alerts as the service does.
  { files: 'cli/monitor-loop.ts', own: ['alerting/', 'core/', 'cli/', 'settings/alerting.ts'] },
  {
    files: 'cli/http/',
    own: ['cli/', 'core/', 'files/'],
    packages: ['eventsource-parser', 'node:tls', 'undici'],
  },
  { files: 'cli/listen.ts', own: ['cli/', 'core/'], packages: ['commander', 'node:http'] },
  { files: 'cli/', own: ['alerting/', 'core/', 'files/', 'schemas/'], packages: ['commander'] },
  { files: 'console/', packages: ['preact', 'uplot'], builtins: [] },
  { files: 'settings/', own: ['core/'], builtins: [] },
  { files: 'config.ts', own: ['core/', 'settings/'], types: ['cli/env.ts'] },
  { files: 'clock.ts', own: ['core/'], packages: ['node:perf_hooks', 'node:timers'] },
  // The operator's commands: in the server, or straight on the store.
  {
    files: 'operator/program.ts',
    own: ['core/', 'operator/', 'cli/errors.ts', 'store/sqlite/vacuum.ts'],
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
      'store/sqlite/copy-check.ts',
      'tls/',
      'upkeep/',
    ],
    types: ['program/admin.ts'],
    packages: ['pino', ...NETWORK, ...HTTP],
  },
  // The programs connect all other folders.
  {
    files: 'program/',
    own: ['', '../package.json'],
    packages: ['pino', 'node:child_process', ...NETWORK, ...HTTP],
  },
  {
    files: 'main.ts',
    own: ['', '../package.json'],
    packages: ['pino', 'commander', 'node:child_process', ...NETWORK, ...HTTP],
  },
];

/** Randomness is an argument too (core/clock.ts), so these come from nowhere else. */
const RANDOM_NAMES = ['randomBytes', 'randomInt', 'randomUUID', 'randomFill', 'randomFillSync'];

function importViolations(path: string, rule: Rule, line: Import): string[] {
  if (mayImport(path, rule, line) && mayDraw(path, line)) return [];
  const what = line.specifier === '?' ? 'something not literal' : line.specifier;
  return [`${path} may not import ${what}`];
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

function mayDraw(path: string, { specifier, names }: Import): boolean {
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

/** The names an import clause takes as values: `* as x` counts as `*`, `x` as `default`. */
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
  readonly say: string;
}

const PROGRAMS = ['clock.ts', 'main.ts', 'program/demo.ts'];
const names: readonly Name[] = [
  { text: /\bDate\.now\b/, files: PROGRAMS, say: 'Date.now' },
  { text: /\bnew Date(?:\(\s*\)|\b(?!\s*\())/, files: PROGRAMS, say: 'new Date()' },
  { text: /(?<![.\w]|new )Date\(/, files: PROGRAMS, say: 'Date()' },
  { text: /\bperformance\.now\b|\bhrtime\b/, files: PROGRAMS, say: 'performance.now' },
  { text: /\bMath\.random\b/, files: PROGRAMS, say: 'Math.random' },
  { text: /\brandomUUID\b|\bgetRandomValues\b/, files: PROGRAMS, say: 'randomUUID' },
  {
    text: /(?:globalThis\.|(?<![.\w]))set(?:Timeout|Interval)\b/,
    files: PROGRAMS,
    say: 'setTimeout or setInterval',
  },
  { text: /\bprocess\s*(?:\??\.|\[\s*['"`])\s*env\b/, files: ['config.ts'], say: 'process.env' },
];

function textViolations(path: string, source: string): string[] {
  const code = withoutComments(source);
  return names
    .filter((name) => !name.files.includes(path) && name.text.test(code))
    .map((name) => `${path} may not use ${name.say}: only ${name.files.join(', ')} may`);
}

/** These names say nothing of what is inside. */
const EMPTY_NAMES = ['utils', 'util', 'common', 'helpers', 'helper', 'index', 'misc'];

function nameViolations(path: string): string[] {
  const empty = path.split('/').find((part) => EMPTY_NAMES.includes(part.split('.')[0] ?? ''));
  return empty === undefined ? [] : [`${path}: ${empty} is no noun`];
}

/** Drops the lines that are comment alone, as the formatter lays them out. */
function withoutComments(source: string): string {
  return source.replaceAll(/^\s*(?:\/\/|\/\*|\*).*$/gm, '');
}
