import { dirname } from 'node:path';
import type { Command } from 'commander';
import type { CliDeps } from '../cli/command.ts';
import { addDevCommand } from '../cli/dev-options.ts';
import { exitCodes } from '../cli/errors.ts';
import { addHttpCommands, createProgram } from '../cli/program.ts';
import { addServiceExamples } from '../cli/service-examples.ts';
import { describeConfig, loadCliEnv } from '../config.ts';
import { describeMessageSettings } from '../messages/settings.ts';
import { addOperatorCommands, type OperatorDeps } from '../operator/program.ts';
import { load, print, type ProgramContext } from './context.ts';
import { type ServiceOptions, services } from './services.ts';
import { createTerminal } from '../cli/terminal/terminal.ts';
import { openLog } from './log.ts';
import { interruption } from './signals.ts';

// Each command loads what only it needs: reading the whole service and its libraries would triple
// the start of a command of the client.

/** Runs the command of a command line. Throws what `outcomeOf` of `cli/outcome.ts` takes. */
export async function runCommand(
  context: ProgramContext,
  words: readonly string[],
  json: boolean,
): Promise<void> {
  await buildProgram(context, json).parseAsync(words, { from: 'user' });
}

/** Returns the tree of all commands. */
export function buildProgram(context: ProgramContext, json: boolean): Command {
  const client = clientDeps(context);
  const program = createProgram(client, json)
    // A closed output ends a command successfully; a service without its output is broken, and
    // `leat dev` has something to remove first.
    .hook('preAction', (_program, command) => {
      if (!services.has(command.name()) && command.name() !== 'dev') watchOutput();
    })
    .commandsGroup('Service, on this machine:');
  addDevCommand(program, async (type, options) => {
    const { dev } = await import('./dev/command.ts');
    await dev(context, type, options);
  });
  addServiceCommands(program, context);
  addDescriptionCommands(program, context);
  addOperatorCommands(program, operatorDeps(context));
  program
    .command('migrate-store')
    .description('copy a whole store from SQLite to PostgreSQL; run it again if it was interrupted')
    .requiredOption('--from <store>', 'source, which is not changed: sqlite:<path>')
    .requiredOption('--to <store>', 'an empty database: postgres://user@host/database')
    .action(async (locations: Record<'from' | 'to', string>) => {
      const { runMigrateStore } = await import('./migrate-store-command.ts');
      await runMigrateStore(context, locations);
    });
  addHttpCommands(program, client);
  addServiceExamples(program);
  // The options of `leat` itself stand before the command: a key id may begin with -V. Not earlier, as
  // commands inherit it, and those of `leat console` may stand after its subcommands.
  return program.enablePositionalOptions();
}

function addServiceCommands(program: Command, context: ProgramContext): void {
  for (const [name, { description, takesOptions, run }] of services) {
    const command = program.command(name, { hidden: description === undefined });
    if (description !== undefined) command.description(description);
    if (takesOptions === true) {
      command.option('--rename', 'change the domain, and so the issuer, of all nodes on the store');
    }
    command.action((options: ServiceOptions) => run(context, options));
  }
}

function addDescriptionCommands(program: Command, context: ProgramContext): void {
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
      const { openapiDocument } = await import('../api/reference/openapi.ts');
      print(context, JSON.stringify(openapiDocument(), undefined, 2));
    });
}

function clientDeps({ clock, random, version }: ProgramContext): CliDeps {
  return {
    clock,
    random,
    version,
    env: loadCliEnv(),
    streams: process,
    interruption: () => {
      const ending = new AbortController();
      process.on('SIGINT', () => ending.abort());
      return ending.signal;
    },
  };
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

/** Returns the dependencies of the operator's commands; each command loads only those it uses. */
function operatorDeps(context: ProgramContext): OperatorDeps {
  const { clock, random, version, programFile, stdout, stderr } = context;
  return {
    load,
    openAdmin: async ({ config }) => {
      const { createAdmin } = await import('./admin.ts');
      return createAdmin({ config, clock, random });
    },
    addressesOf: async ({ config }) => {
      const { openNetwork } = await import('./network.ts');
      return openNetwork({ config, clock }).addressesOf;
    },
    alertChannels: async ({ config }) => {
      const { createAlertChannels } = await import('../alerting/channels.ts');
      const { openNetwork } = await import('./network.ts');
      const { fetch, lookup } = openNetwork({ config, clock });
      const log = await openLog(config, context);
      return createAlertChannels(config, {
        fetch,
        lookup,
        log,
        clock,
        userAgent: `Leat/${version}`,
      });
    },
    clock,
    random,
    nodeVersion: process.version,
    // `src/main.ts` in a checkout, a file in `lib` in the package.
    programFolder: programFile === undefined ? undefined : dirname(dirname(programFile)),
    terminal: createTerminal({ stdin: process.stdin, stdout, stderr }, { colour: false }),
    stderr,
    interruption: () => interruption(clock),
  };
}
