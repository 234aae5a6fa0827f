import type { Millis } from '../../core/clock.ts';
import type { DeliveryKind } from '../../core/types.ts';
import { dueInMs, type WaitRule } from '../port/time.ts';

/** What decides when a row is claimed. */
interface DueRow {
  readonly kind: DeliveryKind;
  readonly due_at: Millis;
}

/**
 * Which of a stream's rows are taken now, and until when the next is due. Those of a replay come
 * last. `rows`: of those of replays, of the others, and of those that wait longer than the rule lets
 * them the oldest first, one more of each than is asked for.
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

/** Until the first of these instants is due, by the rule; `undefined` when there are none. */
export function nextDueInMs(
  dueAts: readonly (Millis | null | undefined)[],
  now: Millis,
  rule: WaitRule,
): number | undefined {
  const waits = dueAts.flatMap((dueAt) =>
    typeof dueAt === 'number' ? [dueInMs(dueAt, now, rule)] : [],
  );
  return waits.length === 0 ? undefined : Math.min(...waits);
}
