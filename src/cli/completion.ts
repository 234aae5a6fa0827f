import { Argument, type Command } from 'commander';

/** A command and its completions. */
export interface Completable {
  /** Names of the command and its parents, without the program; empty for the program. */
  readonly path: readonly string[];
  /** Sub-commands and options. */
  readonly words: readonly { readonly word: string; readonly description: string }[];
}

const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

/** `leat completion` */
export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in a shell')
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
      process.stdout.write(completionScript(shell, completablesOf(program)));
    });
}

/** Returns a command and its visible sub-commands, parents first. */
export function completablesOf(command: Command, path: readonly string[] = []): Completable[] {
  const help = command.createHelp();
  const commands = help.visibleCommands(command).filter((each) => each.name() !== 'help');
  const own = commands.map((each) => ({
    word: each.name(),
    description: help.subcommandDescription(each),
  }));
  const options = help
    .visibleOptions(command)
    .flatMap(({ long, description }) =>
      long === undefined || long === null ? [] : [{ word: long, description }],
    );
  return [
    { path, words: [...own, ...options] },
    ...commands.flatMap((each) => completablesOf(each, [...path, each.name()])),
  ];
}

/** Returns the script for a shell. Names have letters, digits and dashes only; texts are quoted. */
export function completionScript(shell: Shell, commands: readonly Completable[]): string {
  return { bash, zsh, fish }[shell](commands);
}

function pathText({ path }: Completable): string {
  return path.map((word) => `/${word}`).join('');
}

function knownPaths(commands: readonly Completable[]): string {
  return commands
    .map(pathText)
    .filter((path) => path !== '')
    .join('|');
}

function bash(commands: readonly Completable[]): string {
  const cases = commands.map(
    (command) =>
      `    '${pathText(command)}') words='${command.words.map(({ word }) => word).join(' ')}' ;;`,
  );
  return `# bash completion of leat
_leat() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" path='' words='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path/$word" in
      ${knownPaths(commands)}) path="$path/$word" ;;
    esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _leat leat
`;
}

function zsh(commands: readonly Completable[]): string {
  const cases = commands.map((command) => {
    const words = command.words.map(
      ({ word, description }) => `      ${quoted(`${word}:${description}`)}`,
    );
    return `    '${pathText(command)}') candidates=(\n${words.join('\n')}\n    ) ;;`;
  });
  return `#compdef leat
# zsh completion of leat
_leat() {
  local at='' word
  local -a candidates
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at/$word" in
      ${knownPaths(commands)}) at="$at/$word" ;;
    esac
  done
  case "$at" in
${cases.join('\n')}
  esac
  _describe 'leat' candidates || _files
}
if [ "$funcstack[1]" = _leat ]; then _leat "$@"; else compdef _leat leat; fi
`;
}

function fish(commands: readonly Completable[]): string {
  const paths = commands.map(pathText).filter((path) => path !== '');
  const lines = commands.flatMap((command) =>
    command.words.map(({ word, description }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`;
      const at = quoted(`__leat_at '${pathText(command)}'`);
      return `complete -c leat -n ${at} ${what} -d ${quoted(description)}`;
    }),
  );
  return `# fish completion of leat
function __leat_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    if contains -- "$at/$word" ${paths.join(' ')}
      set at "$at/$word"
    end
  end
  test "$at" = "$argv[1]"
end
${lines.join('\n')}
`;
}

/** Quotes a text with single quotes, in a way that all three shells understand. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'"'"'`)}'`;
}
