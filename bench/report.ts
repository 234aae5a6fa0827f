import type { Figure } from './bench.ts';
import { median, ratios, type Rounds } from './rounds.ts';

/** The ratio of two rates, which must be at least so much. */
export function rateFigure(
  name: string,
  rounds: Rounds,
  bar: { readonly least: number; readonly goal: number },
): Figure {
  const must = { kind: 'least', value: bar.least } as const;
  return {
    name,
    detail: perSecond(rounds),
    values: ratios(rounds),
    unit: '×',
    must,
    goal: bar.goal,
  };
}

function perSecond(rounds: Rounds): string {
  const rate = (values: readonly number[]): string =>
    `${Math.round(median(values)).toLocaleString('en')}/s`;
  return `${rate(rounds.ours)} against ${rate(rounds.theirs)}`;
}

/** Whether the median holds the bar. */
export function holds(figure: Figure): boolean {
  const value = median(figure.values);
  return figure.must.kind === 'least' ? value >= figure.must.value : value <= figure.must.value;
}

/** One line for people: name, both sides, median, spread, bar. */
export function line(figure: Figure): string {
  const show = (value: number): string => value.toFixed(value < 10 ? 2 : 0);
  const bar = `${figure.must.kind === 'least' ? '≥' : '≤'} ${figure.must.value}`;
  const goal = figure.goal === undefined ? '' : `, goal ${figure.goal}`;
  const spread = `${show(Math.min(...figure.values))} to ${show(Math.max(...figure.values))}`;
  return (
    `${holds(figure) ? 'ok  ' : 'FAIL'} ${figure.name.padEnd(18)} ` +
    `${show(median(figure.values))} ${figure.unit} (${spread}; must ${bar}${goal}) ${figure.detail}`
  );
}
