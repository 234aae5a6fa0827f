import { createHash } from 'node:crypto';
import type { Attempt, Offset } from '../../core/types.ts';
import type { RowOf } from '../table.ts';
import type { tables } from '../tables.ts';

/** Maximum entries of one delivery's history that are shown. */
export const shownMax = 100;

/** The event of a history: by its offset, or by its id for a test, which has none. */
export interface HistoryEvent {
  readonly id: string;
  readonly offset: Offset | undefined | null;
}

/** Returns the key of an event in the history of a stream. */
export function eventKeyOf({ id, offset }: HistoryEvent): number {
  return typeof offset === 'number' ? offset : testKeyOf(id);
}

/**
 * Returns the key of a test event: below zero, where no offset is, from 52 bits of a hash. Two of
 * one stream share a key once in some hundred million tests, and then each also shows the other's
 * history.
 */
export function testKeyOf(eventId: string): number {
  return -1 - Number.parseInt(createHash('sha256').update(eventId).digest('hex').slice(0, 13), 16);
}

/** The values of `attempts.outcome`. */
export const outcomeCodes = { delivered: 1, failed: 2, redelivered: 3, dismissed: 4 } as const;
const outcomes: readonly (Attempt['outcome'] | undefined)[] = [
  undefined,
  'delivered',
  'failed',
  'redelivered',
  'dismissed',
];

/** The columns of an entry of a history. */
export type AttemptRow = Pick<
  RowOf<typeof tables.attempts>,
  'at' | 'duration_ms' | 'outcome' | 'status' | 'error'
>;

/** Returns one entry of a history. */
export function attemptOf(row: AttemptRow): Attempt {
  const outcome = outcomes[row.outcome];
  if (outcome === undefined) throw new Error(`attempts.outcome is ${row.outcome}`);
  return {
    at: row.at,
    durationMs: row.duration_ms,
    outcome,
    status: row.status ?? undefined,
    error: row.error ?? undefined,
  };
}
