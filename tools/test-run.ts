import { writeFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import type { Tier, Unit } from './test-units.ts';

/** How test processes are started. */
export interface RunOptions {
  readonly tier: Tier;
  readonly flags: readonly string[];
  /** Ends the tests of a process that hangs. */
  readonly timeoutMs: number;
  /** Where files are written that run several others. */
  readonly folder: URL;
}

/** A test or suite that has ended. */
export interface TestResult {
  readonly title: string;
  /** Where it is declared. */
  readonly file: string;
  readonly isSuite: boolean;
  readonly depth: number;
  readonly ms: number;
  readonly passed: boolean;
  readonly skipped: boolean;
}

/** What the tests of one process came to. */
export interface UnitResult {
  readonly results: readonly TestResult[];
  /** How long each of its files took. */
  readonly files: readonly { readonly file: string; readonly ms: number }[];
  /** What is shown of failures; empty without any. */
  readonly failures: string;
}

const root = fileURLToPath(new URL('../', import.meta.url));

/** Runs units in their order, so many that wait and so many others at once, and passes on each result. */
export async function runUnits(
  units: readonly Unit[],
  atOnce: { readonly waiting: number; readonly computing: number },
  options: RunOptions,
  show: (unit: Unit, result: UnitResult) => void,
): Promise<void> {
  const work = async (queue: Unit[]): Promise<void> => {
    for (let unit = queue.shift(); unit !== undefined; unit = queue.shift()) {
      show(unit, await runUnit(unit, options));
    }
  };
  const queues: [queue: Unit[], count: number][] = [
    [units.filter(({ waits }) => waits), atOnce.waiting],
    [units.filter(({ waits }) => !waits), atOnce.computing],
  ];
  await Promise.all(
    queues.flatMap(([queue, count]) => Array.from({ length: count }, () => work(queue))),
  );
}

async function runUnit(unit: Unit, options: RunOptions): Promise<UnitResult> {
  const startedAtMs = performance.now();
  const path = fileOf(unit, options.folder);
  const events = run({
    files: [path],
    timeout: options.timeoutMs,
    execArgv: [...options.flags],
    testTagFilters: options.tier === 'long' ? 'long' : '!long',
  });
  const results: TestResult[] = [];
  const output: string[] = [];
  for (const type of ['test:pass', 'test:fail'] as const) {
    events.on(type, ({ name, file, nesting, details, skip, todo }) => {
      const passed = type === 'test:pass' || todo !== undefined;
      // A file without tests, or whose tests were all left out, counts as one that passes.
      if (passed && name === path) return;
      results.push({
        title: name,
        file: relative(root, file ?? path),
        isSuite: details.type === 'suite',
        depth: nesting,
        ms: details.duration_ms,
        passed,
        skipped: skip !== undefined,
      });
    });
  }
  for (const stream of ['test:stdout', 'test:stderr'] as const) {
    events.on(stream, ({ message }) => output.push(message));
  }
  const report = await text(events.compose(new spec()));
  const ms = performance.now() - startedAtMs;
  const failed = results.some(({ passed }) => !passed);
  return {
    results,
    files: unit.files.map((file) => ({ file, ms: timeOf(file, results) ?? ms })),
    failures: failed ? `${output.join('')}${report.slice(report.indexOf(failuresBegin))}` : '',
  };
}

/** How the reporter begins its list of failures. */
const failuresBegin = '\u2716 failing tests:';

/** Returns the time of a file that ran beside others in its process. */
function timeOf(file: string, results: readonly TestResult[]): number | undefined {
  return results.find(({ title, depth }) => title === file && depth === 0)?.ms;
}

/**
 * Returns the file that a process runs: the only one, or one that has each of several in a suite, so that
 * hooks of a file are those of its tests. The suite needs them at once, so it does not import them.
 */
function fileOf({ name, files }: Unit, folder: URL): string {
  const paths = files.map((file) => resolve(root, file));
  const [only] = paths;
  if (only !== undefined && paths.length === 1) return only;
  const path = fileURLToPath(new URL(`${name.replaceAll(/[/ ]/g, '-')}.test.mjs`, folder));
  const suites = files.map(
    (file, index) =>
      `suite(${JSON.stringify(file)}, () => void require(${JSON.stringify(paths[index])}));`,
  );
  const head = [
    `import { createRequire } from 'node:module';`,
    `import { suite } from 'node:test';`,
    // Its hook is that of the process, not that of the first file which needs it.
    `import ${JSON.stringify(new URL('../test/helpers/process-scope.ts', import.meta.url))};`,
    `const require = createRequire(import.meta.url);`,
  ];
  writeFileSync(path, [...head, ...suites, ''].join('\n'));
  return path;
}
