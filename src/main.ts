#!/usr/bin/env -S node --max-semi-space-size=16 --v8-pool-size=0
/** The `leat` program: its commands and their dependencies. */
import { isSea } from 'node:sea';
import { fileURLToPath } from 'node:url';
import packageJson from '../package.json' with { type: 'json' };
import { outcomeOf, wantsJson } from './cli/outcome.ts';
import { systemClock, systemRandom } from './clock.ts';
import { StartRefused } from './core/errors.ts';
import type { ProgramContext } from './program/context.ts';
import { nodeViolation } from './program/node-version.ts';
import { services } from './program/services.ts';

const { version } = packageJson;

const context: ProgramContext = {
  clock: systemClock,
  random: systemRandom,
  version,
  programFile: isSea() ? undefined : fileURLToPath(import.meta.url),
  stdout: process.stdout,
  stderr: process.stderr,
  fail,
};

const words = process.argv.slice(2);
const json = wantsJson(words);

function fail(error: unknown): never {
  const { exitCode, text } = outcomeOf(error, json);
  if (text !== '') process.stderr.write(`${text}\n`);
  process.exit(exitCode);
}

/** A service starts without the tree of commands, whose creation takes a fifth of its start. */
async function run(): Promise<void> {
  const [word] = words;
  const service = word !== undefined && words.length === 1 ? services.get(word) : undefined;
  if (service !== undefined) return service.run(context);
  const { runCommand } = await import('./program/commands.ts');
  return runCommand(context, words, json);
}

try {
  const violation = nodeViolation(process.versions.node);
  if (violation !== undefined) throw new StartRefused(violation);
  await run();
} catch (error) {
  fail(error);
}
