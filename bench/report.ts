import type { Better, Figure } from './bench.ts';
import type { Comparison } from './compare.ts';
import { median, ratios, type Rounds } from './rounds.ts';

interface About extends Pick<Figure, 'goal'> {
  readonly detail?: string;
  /** The limit of the median, from below or from above. */
  readonly least?: number | undefined;
  readonly most?: number | undefined;
  /** Said by the limit, if there is one. */
  readonly better?: Better;
}

export function figure(
  name: string,
  unit: string,
  values: readonly number[],
  { detail = '', least, most, goal, better }: About,
): Figure {
  const must =
    least === undefined
      ? most === undefined
        ? undefined
        : ({ kind: 'most', value: most } as const)
      : ({ kind: 'least', value: least } as const);
  const ofLimit = must && (must.kind === 'least' ? 'higher' : 'lower');
  return { name, detail, values, unit, must, goal, better: better ?? ofLimit };
}

/** Returns the ratio of each round. */
export function ratioFigure(name: string, rounds: Rounds, about: About): Figure {
  return { ...figure(name, '×', ratios(rounds), about), rounds };
}

/** The same of two rates. */
export function rateFigure(
  name: string,
  rounds: Rounds,
  limit: Pick<About, 'least' | 'goal'> = {},
): Figure {
  const rate = (values: readonly number[]): string =>
    `${Math.round(median(values)).toLocaleString('en')}/s`;
  const detail = `${rate(rounds.ours)} against ${rate(rounds.theirs)}`;
  return ratioFigure(name, rounds, { detail, better: 'higher', ...limit });
}

/** Returns the medians of both sides. */
export function against({ ours, theirs }: Rounds, unit: string, digits = 1): string {
  return `${median(ours).toFixed(digits)} against ${median(theirs).toFixed(digits)} ${unit}`;
}

export function nodesText(count: number): string {
  return `${count} node${count === 1 ? '' : 's'}`;
}

/** Returns one line of text about a figure and that of an earlier run. */
export function comparisonLine(
  { change, ratio, chance }: Comparison,
  before: { readonly values: readonly number[]; readonly unit: string },
): string {
  const { values, unit } = before;
  const percent = `${ratio < 1 ? '' : '+'}${((ratio - 1) * 100).toFixed(1)} %`;
  const by = chance === undefined ? '' : `, by chance in ${(chance * 100).toFixed(1)} of 100 cases`;
  return `${change}: ${percent} from ${show(median(values))} ${unit} (${spreadOf(values)})${by}`;
}

/** Returns whether the median keeps its limit; true without one. */
export function holds({ must, values }: Figure): boolean {
  if (must === undefined) return true;
  return must.kind === 'least' ? median(values) >= must.value : median(values) <= must.value;
}

/** Returns one line of text: name, both sides, median, spread; unless it is profiled its limit. */
export function line(of: Figure, isProfiled = false): string {
  const { name, detail, values, unit, ...limits } = of;
  const { must, goal } = isProfiled ? {} : limits;
  const limit =
    must === undefined ? '' : `; must ${must.kind === 'least' ? '≥' : '≤'} ${must.value}`;
  const wanted = goal === undefined ? '' : `, goal ${goal}`;
  const mark = must === undefined ? '    ' : holds(of) ? 'ok  ' : 'FAIL';
  return (
    `${mark} ${name.padEnd(18)} ` +
    `${show(median(values))} ${unit} (${spreadOf(values)}${limit}${wanted}) ${detail}`
  );
}

function show(value: number): string {
  return value.toFixed(value < 10 ? 2 : 0);
}

function spreadOf(values: readonly number[]): string {
  return `${show(Math.min(...values))} to ${show(Math.max(...values))}`;
}
