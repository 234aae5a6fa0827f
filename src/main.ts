#!/usr/bin/env -S node --max-semi-space-size=16 --v8-pool-size=0
/** The `leat` program: its commands and their dependencies. */
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import type { CliDeps } from './cli/command.ts';
import { exitCodes } from './cli/errors.ts';
import { outcomeOf, wantsJson } from './cli/outcome.ts';
import { addHttpCommands, createProgram } from './cli/program.ts';
import { addServiceExamples } from './cli/service-examples.ts';
import { systemClock, systemRandom } from './clock.ts';
import { describeConfig, loadCliEnv } from './config.ts';
import { StartRefused } from './core/errors.ts';
import { describeMessageSettings } from './messages/settings.ts';
import { addOperatorCommands } from './operator/program.ts';
import { load, print, type ProgramContext } from './program/context.ts';
import { messageProcessCommand } from './program/message-process.ts';
import { nodeViolation } from './program/node-version.ts';
import { operatorDeps } from './program/operator-deps.ts';
import { ignoreSignals, listenForSignals } from './program/signals.ts';

const { version } = packageJson;

const context: ProgramContext = {
  clock: systemClock,
  random: systemRandom,
  version,
  programFile: fileURLToPath(import.meta.url),
  stdout: process.stdout,
  stderr: process.stderr,
  fail,
};

// Each command loads what only it needs: reading the whole service and its libraries would triple
// the start of a command of the client.

const words = process.argv.slice(2);
const json = wantsJson(words);

/** Commands that run until a signal. */
const services: readonly string[] = ['start', 'serve', 'messages', messageProcessCommand];

function buildProgram(): Command {
  const client = clientDeps();
  const program = createProgram(client, json)
    // A closed output ends a command successfully; a service without its output is broken.
    .hook('preAction', (_program, command) => {
      if (!services.includes(command.name())) watchOutput();
    })
    .commandsGroup('Service, on this machine:');
  addServiceCommands(program);
  addDescriptionCommands(program);
  addOperatorCommands(program, operatorDeps(context));
  program
    .command('migrate-store')
    .description('copy a whole store from SQLite to PostgreSQL; run it again if it was interrupted')
    .requiredOption('--from <store>', 'source, which is not changed: sqlite:<path>')
    .requiredOption('--to <store>', 'an empty database: postgres://user@host/database')
    .action(async (locations: Record<'from' | 'to', string>) => {
      const { runMigrateStore } = await import('./program/migrate-store-command.ts');
      await runMigrateStore(context, locations);
    });
  addHttpCommands(program, client);
  addServiceExamples(program);
  return program;
}

function addServiceCommands(program: Command): void {
  program
    .command('start')
    .description('run the management API and the message API, and print how to reach them')
    .action(async () => {
      const signals = listenForSignals();
      const { start } = await import('./program/start-command.ts');
      await start(context, signals);
    });
  program
    .command('serve')
    .description('run the management API alone')
    .action(async () => {
      const signals = listenForSignals();
      const { serve } = await import('./program/serve-command.ts');
      await serve(context, signals);
    });
  program
    .command('messages')
    .description('run the message API alone, with tokens of any authorization server')
    .action(async () => {
      const signals = listenForSignals();
      const { messages } = await import('./program/messages-command.ts');
      await messages(context, signals);
    });
  program.command(messageProcessCommand, { hidden: true }).action(async () => {
    ignoreSignals();
    const { messageProcess } = await import('./program/messages-command.ts');
    await messageProcess(context);
  });
}

function addDescriptionCommands(program: Command): void {
  program
    .command('config')
    .description('print every setting, the value in force and what it means')
    .action(() => {
      const loaded = load();
      const lines = [...describeConfig(loaded), ...describeMessageSettings(loaded.texts)];
      print(context, lines.join('\n'));
    });
  program
    .command('openapi')
    .description('print the OpenAPI document of the management API')
    .action(async () => {
      const { openapiDocument } = await import('./api/reference/openapi.ts');
      print(context, JSON.stringify(openapiDocument(), undefined, 2));
    });
}

function clientDeps(): CliDeps {
  return {
    clock: systemClock,
    random: systemRandom,
    version,
    env: loadCliEnv(),
    streams: process,
    interruption: () => {
      const interruption = new AbortController();
      process.on('SIGINT', () => interruption.abort());
      return interruption.signal;
    },
  };
}

function fail(error: unknown): never {
  const { exitCode, text } = outcomeOf(error, json);
  if (text !== '') process.stderr.write(`${text}\n`);
  process.exit(exitCode);
}

/**
 * Ends the program successfully when the reader of its output, such as `head`, has closed it. Any
 * other write error, such as a full disk, is a failure. Errors of the standard error are ignored.
 */
function watchOutput(): void {
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(exitCodes.done);
    process.stderr.write(`The output cannot be written (${error.code ?? error.message}).\n`);
    process.exit(exitCodes.failed);
  });
}

try {
  const violation = nodeViolation(process.versions.node);
  if (violation !== undefined) throw new StartRefused(violation);
  await buildProgram().parseAsync(words, { from: 'user' });
} catch (error) {
  fail(error);
}
