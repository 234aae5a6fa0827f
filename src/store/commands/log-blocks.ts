import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';

/** Consecutive events of a log, which are read together. */
export interface Block {
  /** By place; absent where the log has no event, or it was not read. */
  readonly types: string[];
  readonly at: Millis[];
  readonly counts: Map<string, number>;
}

export const blockEvents = 64;

export function emptyBlock(): Block {
  return { types: [], at: [], counts: new Map() };
}

export function blockOf(offset: Offset): number {
  return Math.floor(offset / blockEvents);
}

export function endOf(block: number): Offset {
  return (block + 1) * blockEvents - 1;
}
