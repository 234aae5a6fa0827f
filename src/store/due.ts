import type { Millis } from '../core/clock.ts';
import type { DeliveryKind } from '../core/types.ts';

/** What decides when a row is claimed. */
interface DueRow {
  readonly kind: DeliveryKind;
  readonly due_at: Millis;
}

/**
 * Which of a stream's rows are taken now, and when the next is due. Those of a replay come last.
 * `rows`: of those of replays and of the others the oldest first, one more of each than is asked
 * for.
 */
export function chooseDue<Row extends DueRow>(
  rows: readonly Row[],
  take: number,
  now: Millis,
): { readonly taken: readonly Row[]; readonly nextDueAt: Millis | undefined } {
  const byRank = (['other', 'replay'] as const).map((rank) =>
    rows.filter(({ kind }) => (kind === 'replay') === (rank === 'replay')),
  );
  const due = byRank.flatMap((ranked) => ranked.filter((row) => row.due_at <= now));
  const taken = due.slice(0, take);
  const isTaken = new Set(taken);
  const left = rows.filter((row) => !isTaken.has(row));
  const nextDueAt = Math.min(...left.map((row) => row.due_at));
  return { taken, nextDueAt: left.length === 0 ? undefined : nextDueAt };
}
