import type { Millis } from '../../core/clock.ts';
import type { DeliveryKind } from '../../core/types.ts';
import { dueInMs, type WaitRule } from '../port/time.ts';

/** The rules for claiming a row. */
interface DueRow {
  readonly kind: DeliveryKind;
  readonly due_at: Millis;
}

/**
 * Returns which of a stream's rows are claimed now, and until when the next is due. Rows of a
 * replay come last. `rows` has the oldest rows of replays, of others, and of those that wait longer
 * than the rule allows, one more of each than requested.
 */
export function chooseDue<Row extends DueRow>(
  rows: readonly Row[],
  take: number,
  now: Millis,
  rule: WaitRule,
): { readonly taken: readonly Row[]; readonly nextDueInMs: number | undefined } {
  const byRank = (['other', 'replay'] as const).map((rank) =>
    rows.filter(({ kind }) => (kind === 'replay') === (rank === 'replay')),
  );
  const due = byRank.flatMap((ranked) =>
    ranked.filter((row) => dueInMs(row.due_at, now, rule) === 0),
  );
  const taken = due.slice(0, take);
  const isTaken = new Set(taken);
  const left = rows.filter((row) => !isTaken.has(row));
  const dueAts = left.map((row) => row.due_at);
  return { taken, nextDueInMs: nextDueInMs(dueAts, now, rule) };
}

/**
 * Returns the time until the first of these instants, by the rule; `undefined` when there are none.
 */
export function nextDueInMs(
  dueAts: readonly Millis[],
  now: Millis,
  rule: WaitRule,
): number | undefined {
  const waits = dueAts.map((dueAt) => dueInMs(dueAt, now, rule));
  return waits.length === 0 ? undefined : Math.min(...waits);
}
