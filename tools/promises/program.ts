import type { Argument, Command } from 'commander';
import { exitCodes } from '../../src/cli/errors.ts';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { readCliEnv, readConfig, showConfig } from '../../src/config.ts';
import { auditTypes } from '../../src/core/audit-log.ts';
import { showMessageSettings } from '../../src/messages/settings.ts';
import { buildProgram } from '../../src/program/commands.ts';

/** Returns entries for settings with their defaults, exit codes, the command line and types of the audit log. */
export function programEntries(): string[] {
  const fail = (error: unknown): never => {
    throw error;
  };
  const context = { clock: systemClock, random: systemRandom, version: '', programFile: undefined };
  const { stdout, stderr } = process;
  return [
    ...settingEntries(),
    ...Object.entries(exitCodes).map(([name, code]) => `exit code: ${code} ${name}`),
    ...commandEntries(buildProgram({ ...context, stdout, stderr, fail }, false)),
    ...auditTypes.map((type) => `audit type: ${type}`),
  ];
}

function settingEntries(): string[] {
  const loaded = readConfig({});
  if ('problems' in loaded) throw new Error(loaded.problems.join('\n'));
  const settings = [...showConfig(loaded), ...showMessageSettings(loaded.texts)];
  return [
    ...settings.map(({ name, fallback = 'not set' }) => `setting: ${name} = ${fallback}`),
    ...cliVariables().map((name) => `variable of the command line: ${name}`),
  ];
}

/** Returns the names that are read from an environment for the command line. */
function cliVariables(): string[] {
  const names: string[] = [];
  const get = (_: object, name: string): undefined => void names.push(name);
  readCliEnv(new Proxy({}, { get }));
  return names;
}

/** Returns entries for a command with its arguments, its options with their choices, and its sub-commands. */
function commandEntries(command: Command, path = command.name()): string[] {
  const words = [path, ...command.registeredArguments.map(wordOf)].join(' ');
  return [
    `command: ${words}`,
    ...command.options.map(({ flags, argChoices }) => {
      const choices = argChoices === undefined ? '' : ` (${argChoices.join(', ')})`;
      return `option: ${path} ${flags}${choices}`;
    }),
    ...command.commands.flatMap((each) => commandEntries(each, `${path} ${each.name()}`)),
  ];
}

function wordOf(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}
