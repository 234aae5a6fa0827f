import type { Command } from 'commander';
import type { CliDeps } from './command.ts';
import { addLoginCommands } from './login.ts';
import { addMonitorCommand } from './monitor.ts';
import { addStreamCommands } from './streams.ts';

/** Adds the commands that work over HTTP, against any server that speaks the management API. */
export function addClientCommands(program: Command, deps: CliDeps): void {
  addLoginCommands(program, deps);
  addStreamCommands(program.command('streams').description('event streams'), deps);
  addMonitorCommand(program, deps);
}
