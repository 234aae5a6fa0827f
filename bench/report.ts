import type { Better, Figure } from './bench.ts';
import type { Comparison } from './compare.ts';
import { median, ratios, type Rounds } from './rounds.ts';

/** Returns the ratio of two rates, with its lower limit if there is one. */
export function rateFigure(
  name: string,
  rounds: Rounds,
  limit: { readonly least: number; readonly goal: number } | undefined,
): Figure {
  const must = limit && ({ kind: 'least', value: limit.least } as const);
  return {
    name,
    detail: perSecond(rounds),
    values: ratios(rounds),
    unit: '×',
    must,
    goal: limit?.goal,
    better: 'higher',
    rounds,
  };
}

function perSecond(rounds: Rounds): string {
  const rate = (values: readonly number[]): string =>
    `${Math.round(median(values)).toLocaleString('en')}/s`;
  return `${rate(rounds.ours)} against ${rate(rounds.theirs)}`;
}

export function nodesText(count: number): string {
  return `${count} node${count === 1 ? '' : 's'}`;
}

/** Returns which values are better; undefined where nothing says it. */
export function betterOf({ better, must }: Figure): Better | undefined {
  return better ?? (must && (must.kind === 'least' ? 'higher' : 'lower'));
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
export function holds(figure: Figure): boolean {
  const value = median(figure.values);
  if (figure.must === undefined) return true;
  return figure.must.kind === 'least' ? value >= figure.must.value : value <= figure.must.value;
}

const withoutLimit = { must: undefined, goal: undefined };

/** Returns one line of text: name, both sides, median, spread; unless it is profiled its limit. */
export function line(figure: Figure, isProfiled = false): string {
  const { must, goal: goalValue } = isProfiled ? withoutLimit : figure;
  const limit = must && `; must ${must.kind === 'least' ? '≥' : '≤'} ${must.value}`;
  const goal = goalValue === undefined ? '' : `, goal ${goalValue}`;
  const mark = must === undefined ? '    ' : holds(figure) ? 'ok  ' : 'FAIL';
  return (
    `${mark} ${figure.name.padEnd(18)} ` +
    `${show(median(figure.values))} ${figure.unit} (${spreadOf(figure.values)}${limit ?? ''}${goal}) ${figure.detail}`
  );
}

function show(value: number): string {
  return value.toFixed(value < 10 ? 2 : 0);
}

function spreadOf(values: readonly number[]): string {
  return `${show(Math.min(...values))} to ${show(Math.max(...values))}`;
}
