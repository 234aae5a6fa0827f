import { PassThrough } from 'node:stream';
import { Argument, type Command, type Option } from 'commander';
import { auditTypes } from '../core/audit-log.ts';
import { catalogue } from '../core/catalogue.ts';
import { streamStates } from '../core/stream-state.ts';
import { type CliDeps, type CommonOptions, type ApiRun, runWithApi } from './command.ts';
import {
  completionScript,
  type Completable,
  shells,
  type Shell,
  type Values,
} from './completion-scripts.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { allPages } from './http/pages.ts';

/** `leat completion` */
export function addCompletionCommand(program: Command, deps: CliDeps): void {
  program
    .command('completion')
    .description('print a script that completes commands, options and names in a shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .addHelpText(
      'after',
      `
Set up:
  bash  echo 'source <(leat completion bash)' >> ~/.bashrc
  zsh   leat completion zsh > "\${fpath[1]}/_leat"
  fish  leat completion fish > ~/.config/fish/completions/leat.fish`,
    )
    .action((shell: Shell) => {
      deps.streams.stdout.write(completionScript(shell, completablesOf(program)));
    });
  program
    .command('completion-names [part]', { hidden: true })
    .option('--profile <name>')
    .option('--ca <file>')
    .action((part: string | undefined, options: CommonOptions) => printNames(deps, part, options));
}

/** Returns a command and its visible sub-commands, parents first. */
export function completablesOf(command: Command, path: readonly string[] = []): Completable[] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command).filter((each) => each.name() !== 'help');
  const own = commands.map((each) => ({
    word: each.name(),
    description: help.subcommandDescription(each),
  }));
  const options = help.visibleOptions(command).flatMap((option) => wordOf(option) ?? []);
  const places = command.registeredArguments.map(
    (argument): Values | undefined => argument.argChoices ?? valuesOf[argument.name()],
  );
  return [
    { path, words: [...own, ...options], places },
    ...commands.flatMap((each) => completablesOf(each, [...path, each.name()])),
  ];
}

function wordOf(option: Option): Completable['words'][number] | undefined {
  const { long, description, required, optional, flags, argChoices } = option;
  if (long === undefined || long === null) return undefined;
  if (!required && !optional) return { word: long, description };
  const placeholder = /[<[](?<name>[a-z]+)/.exec(flags)?.groups?.['name'] ?? '';
  return { word: long, description, values: argChoices ?? valuesOf[placeholder] ?? 'nothing' };
}

/** Values by the name of an argument, or the placeholder of an option. */
const valuesOf: Readonly<Record<string, Values>> = {
  stream: 'streams',
  states: streamStates,
  file: 'files',
  type: catalogue,
  types: catalogue,
  entries: auditTypes,
  codes:
    '4xx 5xx 404 410 429 500 502 503 504 timeout dns refused reset tls protocol blocked_address authorization stream_disabled'.split(
      ' ',
    ),
};

interface Named {
  readonly name: string;
}

/** Enough to choose from; a shell shows no more. */
const namesMax = 500;

/** A user waits for it after each press of the tab key. */
const namesMsMax = 2000;

/** Prints the names of streams, one per line; nothing when the server does not send them quickly. */
async function printNames(
  deps: CliDeps,
  part: string | undefined,
  options: CommonOptions,
): Promise<void> {
  const ending = new AbortController();
  const timer = deps.clock.after(namesMsMax, () => ending.abort());
  const silent = { ...deps, streams: { ...deps.streams, stderr: new PassThrough().resume() } };
  const print = async ({ api }: ApiRun): Promise<void> => {
    const query = { q: part === '' ? undefined : part };
    const paging = { query, itemsMax: namesMax };
    const streams = await allPages<Named>(api, '/stream-health', 'streams', paging).catch(() =>
      // Another server may have no health.
      allPages<Named>(api, '/event-streams', 'eventStreams', { itemsMax: namesMax }),
    );
    const names = streams
      .map(({ name }) => name)
      .filter((name) => !/[\p{C}\p{Zl}\p{Zp}]/u.test(name));
    deps.streams.stdout.write(names.map((name) => `${name}\n`).join(''));
  };
  const isInterrupted = { interruption: () => ending.signal };
  await runWithApi({ ...silent, ...isInterrupted }, options, print).catch(() => undefined);
  timer.cancel();
  // A request that is still under way would keep the process.
  throw new CommandFailed(exitCodes.done, '');
}
