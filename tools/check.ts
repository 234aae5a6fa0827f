import { spawn } from 'node:child_process';

/**
 * `npm run check`: runs every static check concurrently. All of them run even when one fails, so that
 * one run shows every problem. The output of most checks is printed only if they fail.
 */
const checks: Record<string, readonly string[]> = {
  // One pass, as the lint rules need the types of every file: tsc would find all of them a second time.
  'types and lint': [
    'oxlint',
    '--type-aware',
    '--type-check',
    '--deny-warnings',
    '--report-unused-disable-directives',
  ],
  format: ['oxfmt', '--check'],
  unused: ['knip', '--no-progress', '--treat-config-hints-as-errors'],
  imports: ['node', '--test', 'test/architecture.test.ts'],
  packages: ['node', '--test', 'test/packages.test.ts'],
  promises: ['node', 'tools/promises.ts'],
  weight: ['node', 'tools/weight.ts'],
};
/** Checks whose output is worth reading when they pass. */
const printed: ReadonlySet<string> = new Set(['weight']);

const results = await Promise.all(
  Object.entries(checks).map(([name, command]) => runCheck(name, command)),
);
const failed = results.filter((result) => !result.passed).map((result) => result.name);
console.log(failed.length === 0 ? 'All checks passed.' : `Failed: ${failed.join(', ')}.`);
process.exitCode = failed.length === 0 ? 0 : 1;

/** Runs a command of node_modules/.bin, which npm adds to the PATH. */
function runCheck(name: string, command: readonly string[]) {
  const [program = '', ...args] = command;
  const startedAtMs = performance.now();
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const output: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk));
  return new Promise<{ name: string; passed: boolean }>((resolve) => {
    const finish = (passed: boolean) => {
      const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
      console.log(`${passed ? 'ok    ' : 'FAILED'} ${name} (${command.join(' ')}) ${seconds} s`);
      if (!passed || printed.has(name)) console.log(Buffer.concat(output).toString());
      resolve({ name, passed });
    };
    child.on('error', (error) => {
      output.push(Buffer.from(`${error.message}; run it through: npm run check\n`));
      finish(false);
    });
    child.on('close', (code) => finish(code === 0));
  });
}
