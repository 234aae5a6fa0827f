import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** `quick` tests are those without the tag `long`. */
export type Tier = 'quick' | 'long';

/** Test files that one process runs. */
export interface Unit {
  /** The file, or the folder of the files and a number. */
  readonly name: string;
  readonly files: readonly string[];
  /** Whether its tests mostly wait: for other processes, for time or for a browser. */
  readonly waits: boolean;
}

/** Folders whose tests start other processes and wait for them. */
const waiting =
  /^test\/(?:browser|cli|clients|cluster|crash|deploy|e2e|files|package|program|simulation)\//;

/** Folders whose files leave nothing behind in their process, and how many of them one process runs. */
const shared: Readonly<Record<string, number>> = {
  'test/alerting': 16,
  'test/api': 16,
  'test/api/http': 32,
  'test/auth': 16,
  'test/browser': 16,
  'test/cli': 11,
  'test/cli/http': 16,
  'test/cli/terminal': 16,
  'test/console': 32,
  'test/core': 64,
  'test/delivery': 16,
  'test/delivery/http': 16,
  'test/delivery/prefetch': 16,
  'test/store/commands': 16,
  'test/store/postgres': 8,
};

/** Folders whose long tests change what the quick ones share: then each file has a process. */
const apartInLong: ReadonlySet<string> = new Set(['test/browser']);

/** Units that run for so long that the others end while they run; they begin first. */
const longest = [
  /\/(?:console-crawl-[a-z-]+|console-locales|auth0-deploy-cli)\.test\.ts$/,
  /^test\/(?:cluster\/death|e2e\/proxies|program\/tls|simulation\/simulation)\.test\.ts$/,
  /^test\/store\/postgres(?:-deliveries)?\.test\.ts$/,
  /^test\/(?:api|auth|browser|cli|store\/postgres) \d+$/,
];

/** Returns the units of the tests of a tier in the order of a seed, but the longest first. */
export function unitsInOrder(files: readonly string[], tier: Tier, seed: number): Unit[] {
  const rank = (name: string): string =>
    createHash('sha256').update(`${seed} ${name}`).digest('hex');
  const ordered = files
    .filter((file) => hasTestsOf(tier, file))
    .toSorted((one, other) => (rank(one) < rank(other) ? -1 : 1));
  const isLater = (unit: Unit): number => (longest.some((name) => name.test(unit.name)) ? 0 : 1);
  return unitsOf(ordered, tier).toSorted((one, other) => isLater(one) - isLater(other));
}

function unitsOf(files: readonly string[], tier: Tier): Unit[] {
  const units: Unit[] = [];
  const open = new Map<string, string[]>();
  for (const file of files) {
    const folder = Object.keys(shared).find(
      (name) => dirname(file) === name && !(tier === 'long' && apartInLong.has(name)),
    );
    const waits = waiting.test(file);
    const group = folder === undefined ? undefined : open.get(folder);
    if (folder === undefined) units.push({ name: file, files: [file], waits });
    else if (group !== undefined && group.length < (shared[folder] ?? 1)) group.push(file);
    else {
      const started = [file];
      open.set(folder, started);
      const number = units.filter(({ name }) => name.startsWith(`${folder} `)).length + 1;
      units.push({ name: `${folder} ${number}`, files: started, waits });
    }
  }
  return units;
}

/** Returns whether a file has tests of a tier, its own or those that it takes from other files. */
export function hasTestsOf(tier: Tier, file: string): boolean {
  const texts = [file, ...suitesOf(file)].map((path) => readFileSync(path, 'utf8'));
  if (tier === 'long') return texts.some((text) => tag.test(text));
  return texts.some((text) => count(text, declaration) > count(text, always));
}

const always = `tags: ['long']`;
const tag = /\btags: .*\['long'\]/;
const declaration = /(?<!\.)\btest\(/;
const imported = /^(?:import|export) [^;]*?from '(?<path>\.[^']*)';/gm;

/** Returns the files that a test file imports and that declare tests. */
function suitesOf(file: string): string[] {
  const paths = readFileSync(file, 'utf8').matchAll(imported);
  return Array.from(paths, ({ groups }) => join(dirname(file), groups?.['path'] ?? '')).filter(
    (path) =>
      /^test\/(?!helpers\/).*\.ts$/.test(path) && declaration.test(readFileSync(path, 'utf8')),
  );
}

function count(text: string, part: string | RegExp): number {
  return text.split(part).length - 1;
}
