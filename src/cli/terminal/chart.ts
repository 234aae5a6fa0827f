import { printable } from '../../core/setting.ts';
import type { Paint } from './terminal.ts';
import { widthOf } from './width.ts';

/** One bar of a chart: successes, then failures. */
export interface ChartRow {
  readonly label: string;
  readonly good: number;
  readonly bad: number;
}

/**
 * Returns the lines of a bar chart: label, numbers and bar of each row. The longest bar fills the
 * width; a number other than zero has at least one column.
 */
export function chartLines(
  rows: readonly ChartRow[],
  { width, paint }: { readonly width: number; readonly paint: Paint },
): string[] {
  const labels = rows.map(({ label }) => printable(label));
  const labelWidth = Math.max(0, ...labels.map(widthOf));
  const goodWidth = Math.max(1, ...rows.map(({ good }) => String(good).length));
  const badWidth = Math.max(1, ...rows.map(({ bad }) => String(bad).length));
  // Label, numbers and bar are separated by two spaces each.
  const barWidth = Math.max(10, width - labelWidth - goodWidth - badWidth - 7);
  const most = Math.max(1, ...rows.map(({ good, bad }) => good + bad));
  return rows.map(({ good, bad }, index) => {
    const [goodColumns, badColumns] = barColumns(good, bad, barWidth / most);
    const label = (labels[index] ?? '').padEnd(labelWidth);
    const numbers = [
      paint(good > 0 ? 'green' : 'dim', String(good).padStart(goodWidth)),
      paint(bad > 0 ? 'red' : 'dim', String(bad).padStart(badWidth)),
    ].join('  ');
    const drawn = paint('green', '█'.repeat(goodColumns)) + paint('red', '▒'.repeat(badColumns));
    return `${label}  ${numbers}  ${drawn}`.trimEnd();
  });
}

/** Returns the columns of both parts of a bar; their sum is at most the rounded length of the bar. */
function barColumns(good: number, bad: number, scale: number): [number, number] {
  const whole = Math.round((good + bad) * scale);
  if (good + bad === 0) return [0, 0];
  if (bad === 0) return [Math.max(1, whole), 0];
  if (good === 0) return [0, Math.max(1, whole)];
  const badColumns = Math.min(Math.max(1, Math.round(bad * scale)), Math.max(1, whole - 1));
  return [Math.max(1, whole - badColumns), badColumns];
}
