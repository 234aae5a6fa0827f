/** The command line of the benchmarks. */
import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import type { Bench, RunOptions } from './bench.ts';
import { chanceMax, roundsMin } from './compare.ts';
import { InvalidRun, readRun, type Run } from './run-file.ts';

/** What a run measures and prints. */
export interface Wanted {
  /** The benchmarks to run, in their order. */
  readonly benches: readonly Bench[];
  readonly options: RunOptions;
  readonly json: boolean;
  /** The folder of profiles; absent for a run without. */
  readonly profiles: string | undefined;
  /** The run that the figures are compared with. */
  readonly before: Run | undefined;
}

interface Given extends Omit<RunOptions, 'rounds'> {
  readonly json: boolean;
  readonly rounds?: number;
  readonly profile?: string;
  readonly against?: Run;
}

const help = `
--against compares the rounds of each figure by their ranks (exact two-sided Wilcoxon rank-sum test). A figure is
"faster" or "slower" when chance alone makes such a difference in less than ${chanceMax * 100} of 100 cases: with ${roundsMin} rounds on
each side when no round of one side is within those of the other. Otherwise it is "within the spread"; with fewer
than ${roundsMin} rounds nothing can be told. "higher" and "lower" are for figures without a better direction.

Examples:
  npm run bench -- drain-postgres --nodes 1,2,4 --rounds 3
  npm run --silent bench -- drain latency --json > old.json
  npm run bench -- drain latency --against old.json
  npm run bench -- drain --profile FOLDER`;

/** Reads the arguments; ends the process with a text about a wrong one. */
export function readArguments(benches: readonly Bench[]): Wanted {
  const program = new Command('bench')
    .description('Measures Leat against bare counterparts on this machine, all of it or some.')
    .addArgument(new Argument('[names...]').choices(benches.map(({ name }) => name)))
    .option('--json', 'prints the run as JSON, which --against reads', false)
    .option('--nodes <counts>', 'how many servers those on PostgreSQL have', counts, [1])
    .option('--rounds <count>', 'how often each side is measured (5; with --profile 1)', count)
    .option(
      '--cases <text>',
      'measures the cases of isolation, hostile-requests, filter and console with this in their names only',
      '',
    )
    .option(
      '--events <count>',
      'how many events those that drain have, or rows of history upkeep has',
      count,
    )
    .option(
      '--threads <counts>',
      'measures with each number of sender threads (LEAT_SENDER_THREADS; 0: the main thread sends)',
      threadCounts,
    )
    .option(
      '--against <file>',
      'compares each figure with that of an earlier run, which --json has printed',
      earlierRun,
    )
    .addOption(
      new Option(
        '--profile <folder>',
        'writes processor profiles of V8 there, for Chromium or an editor to open: a folder for each kind of process; no limits then',
      )
        .argParser(profileFolder)
        .conflicts('against'),
    )
    .addHelpText('after', help)
    .parse();
  const names = program.args;
  const { json, profile, against, ...given } = program.opts<Given>();
  return {
    benches: benches.filter(({ name }) => names.length === 0 || names.includes(name)),
    options: { ...given, rounds: given.rounds ?? (profile === undefined ? 5 : 1) },
    json,
    profiles: profile,
    before: against,
  };
}

function count(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new InvalidArgumentError('It is not a whole number from 1.');
  }
  return number;
}

function profileFolder(folder: string): string {
  mkdirSync(folder, { recursive: true });
  return resolve(folder);
}

function earlierRun(file: string): Run {
  try {
    return readRun(file);
  } catch (error) {
    if (error instanceof InvalidRun) throw new InvalidArgumentError(error.message);
    throw error;
  }
}

function threadCounts(text: string): number[] {
  return text.split(',').map((each) => (each === '0' ? 0 : count(each)));
}

function counts(text: string): number[] {
  return text.split(',').map(count);
}
