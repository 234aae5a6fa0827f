/** What completes an argument or the value of an option. */
export type Values = readonly string[] | 'streams' | 'files' | 'nothing';

/** A command and its completions. */
export interface Completable {
  /** Names of the command and its parents, without the program; empty for the program. */
  readonly path: readonly string[];
  /** Sub-commands and options. */
  readonly words: readonly Word[];
  /** Its arguments in order; `undefined` for those that nothing completes. */
  readonly places: readonly (Values | undefined)[];
}

interface Word {
  readonly word: string;
  readonly description: string;
  /** Only of an option with a value. */
  readonly values?: Values;
}

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

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

/** Returns the options of a command that have a value, in the form of a pattern of `case`. */
function valued({ words }: Completable): string {
  return words.flatMap(({ word, values }) => (values === undefined ? [] : word)).join(' ');
}

/**
 * Returns lines of a `case` that set `values` and `names`, by the place of the word to complete: the
 * path and the option before it, or the path and the number of the argument.
 */
function valueCases(commands: readonly Completable[]): string[] {
  const cases = new Map<string, string[]>();
  const add = (place: string, values: Values | undefined): void => {
    if (values === undefined) return;
    const line =
      typeof values === 'string' ? `from=${values}` : `from=fixed values='${values.join(' ')}'`;
    cases.set(line, [...(cases.get(line) ?? []), quoted(place)]);
  };
  for (const command of commands) {
    const path = pathText(command);
    for (const { word, values } of command.words) add(`${path} ${word}`, values);
    for (const [index, values] of command.places.entries()) add(`${path} ${index}`, values);
  }
  return [...cases].map(([line, places]) => `    ${places.join('|')}) ${line} ;;`);
}

/**
 * Finds the place of the word to complete; the same text in bash and zsh. `words_before` are the words
 * before it, without the program.
 */
function placeText(commands: readonly Completable[]): string {
  const cases = commands.map(
    (command) => `      '${pathText(command)}') valued=' ${valued(command)} ' ;;`,
  );
  return `  for word in "\${words_before[@]}"; do
    if [[ -n "$option" ]]; then option=''; continue; fi
    case "$at/$word" in
      ${knownPaths(commands)}) at="$at/$word"; continue ;;
    esac
    case "$at" in
${cases.join('\n')}
    esac
    case "$word" in
      -*) [[ "$valued" == *" $word "* ]] && option="$word" ;;
      *) argument=$((argument + 1)) ;;
    esac
  done
  case "$at \${option:-$argument}" in
${valueCases(commands).join('\n')}
  esac`;
}

function bash(commands: readonly Completable[]): string {
  const cases = commands.map(
    (command) =>
      `    '${pathText(command)}') words='${command.words.map(({ word }) => word).join(' ')}' ;;`,
  );
  return `# bash completion of leat
_leat() {
  local cur at='' word option='' argument=0 valued='' from='' values='' words='' list='' rest="$COMP_LINE" text last=-1
  local -a words_before=()
  # Bash takes a word with : or = apart, by COMP_WORDBREAKS; only the last part is replaced.
  for word in "\${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    text="\${rest#"\${rest%%[![:space:]]*}"}"
    if [[ last -ge 1 && "$rest" == "$text" && ( "$word" == [:=]* || "\${words_before[last]}" == *[:=] ) ]]; then
      words_before[last]+="$word"
    else
      last=$((last + 1))
      words_before[last]="$word"
    fi
    rest="\${text#"$word"}"
  done
  cur="\${words_before[last]}"
  words_before=("\${words_before[@]:1:last-1}")
  if [[ "$cur" == --*=* ]]; then words_before+=("\${cur%%=*}"); cur="\${cur#*=}"; fi
  rest="$cur"
  for word in : =; do
    if [[ "$COMP_WORDBREAKS" == *"$word"* ]]; then rest="\${rest##*"$word"}"; fi
  done
  local kept="\${cur%"$rest"}"
${placeText(commands)}
  COMPREPLY=()
  if [[ -n "$option" || ( -n "$from" && "$cur" != -* ) ]]; then
    case "$from" in
      fixed)
        # Values separated by commas: completes the last one.
        if [[ "$cur" == *,* ]]; then list="\${cur%,*},"; fi
        COMPREPLY=($(compgen -P "$list" -W "$values" -- "\${cur#"$list"}")) ;;
      streams)
        while IFS= read -r word; do
          if [[ "$word" == "$cur"* || "$(printf %q "$word")" == "$cur"* ]]; then
            text="$(printf %q "$word")"
            COMPREPLY+=("\${text#"$kept"}")
          fi
        done < <("\${COMP_WORDS[0]}" completion-names -- "\${cur//\\\\/}" 2>/dev/null </dev/null) ;;
      nothing) compopt +o default ;;
    esac
    return
  fi
  case "$at" in
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
  local at='' word option='' argument=0 valued='' from='' values=''
  local -a candidates words_before=("\${(@)words[2,CURRENT-1]}")
${placeText(commands)}
  if [[ -n "$option" || ( -n "$from" && "$PREFIX" != -* ) ]]; then
    case "$from" in
      # Values separated by commas: completes the last one.
      fixed) compset -P '*,'; compadd -- \${=values} ;;
      streams) compadd -- "\${(@f)$($words[1] completion-names -- "$PREFIX" 2>/dev/null </dev/null)}" ;;
      files) _files ;;
    esac
    return
  fi
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
  const lines = commands.flatMap((command) => {
    const path = pathText(command);
    const words = command.words.map(({ word, description, values }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`;
      const at = quoted(`__leat_at '${path}'`);
      return `complete -c leat -n ${at} ${what}${fishValues(values)} -d ${quoted(description)}`;
    });
    const places = command.places.flatMap((values, index) => {
      const at = quoted(`__leat_at '${path}' ${index} '${valued(command)}'`);
      return values === undefined ? [] : `complete -c leat -n ${at}${fishValues(values, '-f')}`;
    });
    return [...words, ...places];
  });
  return `# fish completion of leat
function __leat_at
  set -l at ''
  set -l arguments 0
  set -l option ''
  for word in (commandline -opc)[2..-1]
    if test -n "$option"
      set option ''
    else if contains -- "$at/$word" ${paths.join(' ')}
      set at "$at/$word"
    else if string match -q -- '-*' $word
      contains -- $word (string split ' ' -- "$argv[3]"); and set option $word
    else
      set arguments (math $arguments + 1)
    end
  end
  test "$at" = "$argv[1]"; and begin
    test (count $argv) -lt 2; or test "$arguments" = "$argv[2]"
  end
end
${lines.join('\n')}
`;
}

function fishValues(values: Values | undefined, exclusive = '-x'): string {
  if (values === undefined) return '';
  if (values === 'files') return ' -r';
  if (values === 'nothing') return ' -x';
  const list =
    values === 'streams'
      ? '(leat completion-names -- (commandline -ct) 2>/dev/null </dev/null)'
      : values.join(' ');
  return ` ${exclusive} -a ${quoted(list)}`;
}

/** Quotes a text with single quotes, in a way that all three shells understand. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'"'"'`)}'`;
}
