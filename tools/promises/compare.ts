/** The topic of a test whose part of the program is gone or merged; it names the test that holds the promise now. */
const testsOfStructure = 'Tests of structure';

export interface Promises {
  /** Entries that were written down, `kind: text`. An entry may be there several times. */
  readonly standing: readonly string[];
  /** Entries of the present sources. */
  readonly present: readonly string[];
  /** The text of `test/promises/changes.txt`. */
  readonly changes: string;
}

/**
 * Returns one sentence for each entry that is gone without an explanation, for each explanation that
 * explains nothing or that is wrong, and for mutants that are missing.
 */
export function failuresOf({ standing, present, changes }: Promises): string[] {
  const stood = countsOf(standing);
  const exists = countsOf(present);
  const unexplained = new Map(
    [...stood].map(([entry, count]) => [entry, count - (exists.get(entry) ?? 0)]),
  );
  const lines = linesOf(changes);
  const topics = new Set(lines.flatMap((line) => topicOf(line) ?? []));
  const failures: string[] = [];

  for (const line of lines.filter((each) => topicOf(each) === undefined)) {
    const change = changeOf(line, stood);
    if (change === undefined) {
      failures.push(`${line}\n  No such entry stood: correct the line or remove it.`);
      continue;
    }
    const { entry } = change;
    const count = unexplained.get(entry) ?? 0;
    if (count <= 0) {
      failures.push(`${line}\n  The entry still exists or has a line already: remove this one.`);
    } else unexplained.set(entry, count - 1);
    const problem = 'topic' in change ? wrongTopic(change) : wrongRename(change);
    if (problem !== undefined) failures.push(`${line}\n  ${problem}`);
  }

  function wrongTopic({ entry, topic }: { entry: string; topic: string }): string | undefined {
    const [name = '', ...rest] = topic.split(': ');
    const title = rest.join(': ');
    if (!topics.has(name)) return `No topic "${name}" is listed at the head of the file.`;
    if (name !== testsOfStructure) return title === '' ? undefined : `Write ":: ${name}" alone.`;
    if (!/^(?:test|suite): /.test(entry)) return 'This topic is for tests and suites.';
    if (exists.has(`test: ${title}`)) return undefined;
    return `No test "${title}" exists: name the one that holds the promise now.`;
  }

  function wrongRename({ renamed }: { renamed: string }): string | undefined {
    const now = exists.get(renamed) ?? 0;
    if (now === 0) return `"${renamed}" does not exist: name what the entry is called now.`;
    if (now > (stood.get(renamed) ?? 0)) return undefined;
    return `"${renamed}" stood before, so it is no new name: give the line a topic.`;
  }

  for (const [entry, count] of unexplained) {
    for (let left = count; left > 0; left -= 1) {
      failures.push(
        `${entry}\n  It is gone: add it with " -> " and its new text, or " :: " and a topic.`,
      );
    }
  }
  const mutants = [standing, present].map((entries) => entries.filter(isMutant).length);
  const [before = 0, now = 0] = mutants;
  if (now < before) failures.push(`There are ${now} mutants, and there were ${before}: add some.`);
  return failures;
}

function countsOf(entries: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const entry of entries) counts.set(entry, (counts.get(entry) ?? 0) + 1);
  return counts;
}

function isMutant(entry: string): boolean {
  return entry.startsWith('mutant: ');
}

/** Returns the text without the lines that explain a change. */
export function withoutChanges(changes: string): string {
  const lines = changes.split('\n');
  return lines
    .filter((line) => linesOf(line).every((each) => topicOf(each) !== undefined))
    .join('\n');
}

/** Returns the lines that are neither comments nor empty. */
function linesOf(changes: string): string[] {
  return changes.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

/** Returns the topic that a line of the head lists; `undefined` for another line. */
function topicOf(line: string): string | undefined {
  return /^topic: (?<name>.+?) :: .+\.$/.exec(line)?.groups?.['name'];
}

type Change =
  | { readonly entry: string; readonly topic: string }
  | { readonly entry: string; readonly renamed: string };

/**
 * Returns what a line explains, `undefined` if no entry that stood. Entries have separators, too, so it is
 * the longest of those that the line can mean.
 */
function changeOf(line: string, stood: ReadonlyMap<string, number>): Change | undefined {
  const separators = [...line.matchAll(/ (?:->|::) /g)].toReversed();
  for (const { index, 0: separator } of separators) {
    const entry = line.slice(0, index);
    if (!stood.has(entry)) continue;
    const rest = line.slice(index + separator.length);
    if (separator === ' :: ') return { entry, topic: rest };
    return { entry, renamed: `${entry.slice(0, entry.indexOf(': '))}: ${rest}` };
  }
  return undefined;
}
