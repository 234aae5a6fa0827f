import { cutTo, widthOf } from './width.ts';

/** Progress of a long operation. */
export interface Progress {
  readonly label: string;
  readonly done: number;
  /** `undefined` while it is not known. */
  readonly total: number | undefined;
  /** Further facts, the most important first. */
  readonly notes: readonly string[];
}

const barWidths = { min: 10, max: 30 } as const;

/** Returns a line of at most `width` columns: a bar when the total is known, then the notes. */
export function progressText({ label, done, total, notes }: Progress, width: number): string {
  // A terminal wraps a line that fills its last column.
  const most = width - 1;
  const facts = notes.join(' · ');
  if (total === undefined) return cutTo(`${label}  ${facts}`.trimEnd(), most);
  const rest = `  ${percent(done, total)} %  ${facts}`.trimEnd();
  const room = most - widthOf(label) - 2 - widthOf(rest);
  const barWidth = Math.max(barWidths.min, Math.min(barWidths.max, room));
  return cutTo(`${label}  ${bar(share(done, total), barWidth)}${rest}`, most);
}

/** Returns a bar of `width` columns, filled to a share of 0 to 1. */
export function bar(filled: number, width: number): string {
  const columns = Math.round(filled * width);
  return '█'.repeat(columns) + '░'.repeat(width - columns);
}

/** Rounds down, so that 100 means that all is done. */
function percent(done: number, total: number): string {
  return String(Math.floor(share(done, total) * 100)).padStart(3);
}

function share(done: number, total: number): number {
  return total === 0 ? 1 : Math.min(1, done / total);
}

/** Returns a count with its noun: `1 event`, `2 events`, `at least 2 events`. */
export function counted(count: number, noun: string, isAtLeast = false): string {
  return `${isAtLeast ? 'at least ' : ''}${count} ${noun}${count === 1 ? '' : 's'}`;
}
