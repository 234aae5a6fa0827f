import { cutTo } from './width.ts';

/** How far a long piece of work is. */
export interface Progress {
  readonly label: string;
  readonly done: number;
  /** Absent while nobody knows. */
  readonly total: number | undefined;
  /** What else is worth knowing, in the order of its importance. */
  readonly notes: readonly string[];
}

const barWidthMax = 30;

/** One line that shows it: a bar where the end is known, then the notes; at most `width` columns. */
export function progressText({ label, done, total, notes }: Progress, width: number): string {
  const parts =
    total === undefined
      ? [label]
      : [label, bar(share(done, total), barWidthMax), `${percent(done, total)} %`];
  // A terminal that is full to its last column breaks the line.
  return cutTo(`${parts.join('  ')}  ${notes.join(' · ')}`.trimEnd(), width - 1);
}

/** A bar of `width` columns, filled to a share of 0 to 1. */
export function bar(filled: number, width: number): string {
  const columns = Math.round(filled * width);
  return '█'.repeat(columns) + '░'.repeat(width - columns);
}

/** Whole percents that are 100 only when all is done. */
function percent(done: number, total: number): string {
  return String(Math.floor(share(done, total) * 100)).padStart(3);
}

function share(done: number, total: number): number {
  return total === 0 ? 1 : Math.min(1, done / total);
}

/** `1 event`, `2 events`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
