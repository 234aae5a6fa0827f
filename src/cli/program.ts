import { Command } from 'commander';
import { addLogCommand } from './audit-log.ts';
import { addClientCommands } from './clients.ts';
import type { CliDeps } from './command.ts';
import { addCompletionCommand } from './completion.ts';
import { addDeliveryCommands } from './deliveries.ts';
import { addDismissCommand, addReopenCommand } from './dismiss.ts';
import { addEventCommands } from './events.ts';
import { addFailuresCommand } from './failures.ts';
import { addListenCommand } from './listen.ts';
import { addLoginCommands } from './login.ts';
import { addRedeliverCommand } from './redeliver.ts';
import { addRedeliveryCommands } from './redeliveries.ts';
import { addReplayCommands } from './replay.ts';
import { addStatsCommand } from './stats.ts';
import { addStreamCommands } from './streams.ts';
import { addTestCommand } from './test-event.ts';
import { addUserCommands } from './users.ts';
import { addWhyCommand } from './why.ts';

/**
 * Creates the program, without commands. Parsing throws `CommanderError` after help and for a usage
 * error; the latter is printed as text unless `json`.
 */
export function createProgram(
  { version, streams: { stdout, stderr } }: Pick<CliDeps, 'version' | 'streams'>,
  json: boolean,
): Command {
  return (
    new Command('leat')
      .description('Self-hosted event streams: a durable event log, delivered to webhooks.')
      .version(version)
      // Inherited by every command: a usage error has an exit code of its own.
      .exitOverride()
      .configureOutput({
        writeOut: (text) => stdout.write(text),
        writeErr: (text) => json || stderr.write(text),
      })
  );
}

/** Adds the commands that work over HTTP, with any server that has the management API. */
export function addHttpCommands(program: Command, deps: CliDeps): void {
  program.commandsGroup('Data, over HTTP:');
  addStreamCommands(program.command('streams').description('event streams'), deps);
  addEventCommands(program.command('events').description('publish and follow events'), deps);
  addWhyCommand(program, deps);
  addFailuresCommand(program, deps);
  addDeliveryCommands(program.command('deliveries').description('failed deliveries'), deps);
  addRedeliverCommand(program, deps);
  addRedeliveryCommands(
    program.command('redeliveries').description('redeliveries of failures'),
    deps,
  );
  addDismissCommand(program, deps);
  addReopenCommand(program, deps);
  addReplayCommands(program.command('replay').description('send retained events again'), deps);
  addUserCommands(program.command('users').description('users of the tenant'), deps);
  program.commandsGroup('Operations, over HTTP:');
  addLoginCommands(program, deps);
  addClientCommands(program.command('clients').description('clients and their scopes'), deps);
  addLogCommand(program, deps);
  addStatsCommand(program, deps);
  addTestCommand(program, deps);
  addListenCommand(program, deps);
  addCompletionCommand(program, deps);
}
