import type { Figure } from './bench.ts';
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

/** Returns whether the median keeps its limit; true without one. */
export function holds(figure: Figure): boolean {
  const value = median(figure.values);
  if (figure.must === undefined) return true;
  return figure.must.kind === 'least' ? value >= figure.must.value : value <= figure.must.value;
}

const withoutLimit = { must: undefined, goal: undefined };

/** Returns one line of text: name, both sides, median, spread; unless it is profiled its limit. */
export function line(figure: Figure, isProfiled = false): string {
  const show = (value: number): string => value.toFixed(value < 10 ? 2 : 0);
  const { must, goal: goalValue } = isProfiled ? withoutLimit : figure;
  const limit = must && `; must ${must.kind === 'least' ? '≥' : '≤'} ${must.value}`;
  const goal = goalValue === undefined ? '' : `, goal ${goalValue}`;
  const mark = must === undefined ? '    ' : holds(figure) ? 'ok  ' : 'FAIL';
  const spread = `${show(Math.min(...figure.values))} to ${show(Math.max(...figure.values))}`;
  return (
    `${mark} ${figure.name.padEnd(18)} ` +
    `${show(median(figure.values))} ${figure.unit} (${spread}${limit ?? ''}${goal}) ${figure.detail}`
  );
}
