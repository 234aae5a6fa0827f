/** A run in a file, as `--json` writes it and `--against` reads it. */
import { readFileSync } from 'node:fs';
import { type Static, Type } from 'typebox';
import { Errors } from 'typebox/value';
import type { RunOptions } from './bench.ts';
import { type Comparison, compare } from './compare.ts';

/** Changes with the meaning of a field. */
export const runFormat = 1;

// JSON has no NaN; a figure that could not be computed has null.
const Values = Type.Array(Type.Union([Type.Number(), Type.Null()]));
const Better = Type.Union([Type.Literal('higher'), Type.Literal('lower')]);

const Run = Type.Object({
  format: Type.Literal(runFormat),
  date: Type.String(),
  machine: Type.Object({
    cores: Type.Number(),
    processor: Type.String(),
    platform: Type.String(),
    fsyncMicros: Type.Number(),
    node: Type.String(),
  }),
  /** The options that change what is measured. */
  options: Type.Object({
    events: Type.Optional(Type.Number()),
    threads: Type.Optional(Type.Array(Type.Number())),
  }),
  profiled: Type.Boolean(),
  figures: Type.Array(
    Type.Object({
      bench: Type.String(),
      name: Type.String(),
      unit: Type.String(),
      values: Values,
      better: Type.Optional(Better),
    }),
  ),
});

/** A run, with the fields that a comparison needs; a file has more. */
export type Run = Static<typeof Run>;
export type RunFigure = Run['figures'][number];

/** Says what is wrong with a file. */
export class InvalidRun extends Error {}

/** Reads a file that `--json` wrote. Throws InvalidRun. */
export function readRun(file: string): Run {
  return parseRun(textOf(file));
}

/** Parses what `--json` prints. Throws InvalidRun. */
export function parseRun(text: string): Run {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new InvalidRun(`It is not JSON (${(error as Error).message}): write it with --json.`);
  }
  const [first] = Errors(Run, value);
  if (first !== undefined) {
    const where = first.instancePath === '' ? 'the file' : first.instancePath;
    throw new InvalidRun(`${where} ${first.message}: write it with --json of this version.`);
  }
  const run = value as Run;
  if (run.profiled) {
    throw new InvalidRun('It was measured with --profile, which slows the sides down unequally.');
  }
  return run;
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new InvalidRun(`It cannot be read (${(error as NodeJS.ErrnoException).code}).`);
  }
}

/** Returns the figure of an earlier run that a figure is compared with. */
export function sameFigure(before: Run, figure: Pick<RunFigure, 'bench' | 'name' | 'unit'>) {
  return before.figures.find(
    ({ bench, name, unit }) =>
      bench === figure.bench && name === figure.name && unit === figure.unit,
  );
}

/** Compares a figure with that of an earlier run. Rounds without a value are left out. */
export function compareFigures(before: RunFigure, now: RunFigure): Comparison {
  return compare(numbersOf(before), numbersOf(now), now.better);
}

export function numbersOf({ values }: Pick<RunFigure, 'values'>): number[] {
  return values.filter((value) => value !== null && Number.isFinite(value)) as number[];
}

/** The conditions of a run. */
interface Conditions extends Pick<Run, 'machine'> {
  readonly options: Partial<Pick<RunOptions, 'events' | 'threads'>>;
}

/** Returns what makes two runs hard to compare, one sentence for each. */
export function differences(before: Conditions, now: Conditions): string[] {
  const facts = ({ machine, options }: Conditions): Record<string, string> => ({
    'number of cores': String(machine.cores),
    processor: machine.processor,
    platform: machine.platform,
    'version of Node': machine.node,
    '--events': String(options.events ?? 'not given'),
    '--threads': String(options.threads ?? 'not given'),
  });
  const ofBefore = facts(before);
  return Object.entries(facts(now)).flatMap(([name, value]) => {
    const other = ofBefore[name];
    return other === value ? [] : [`Not the same ${name}: ${other} before, ${value} now.`];
  });
}
