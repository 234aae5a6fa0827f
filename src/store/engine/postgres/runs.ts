import { streamKeyOf } from '../../../core/stream-key.ts';
import { firstChangeFrom } from '../../../core/subscription.ts';
import type { Offset, Subscription } from '../../../core/types.ts';
import { type Run as AnyRun, runOf, type RunRow } from '../../rows/runs.ts';
import { numbers, type Queries } from './database.ts';

/** The state of a stream that runs. */
export interface Run extends AnyRun {
  /** JSON, parsed only where it is needed. */
  readonly subscriptions: string;
}

export type LockedRow = RunRow & Pick<Run, 'subscriptions'>;

export function runsByKey(rows: readonly LockedRow[]): ReadonlyMap<string, Run> {
  return new Map(
    rows.map((row) => [streamKeyOf(row), { ...runOf(row), subscriptions: row.subscriptions }]),
  );
}

/** Writes the changes of locked runs by settling, disabling, enabling and claiming. */
export async function writeRuns(tx: Queries, runs: readonly AnyRun[]): Promise<void> {
  if (runs.length === 0) return;
  await tx.get`
    select leat_write_changed_runs(${numbers(runs.map(({ tenant }) => tenant))}::int[],
      ${runs.map(({ stream }) => stream)}::text[],
      ${numbers(runs.map(({ cursor }) => cursor))}::bigint[],
      ${numbers(runs.map(({ run }) => run))}::int[],
      ${numbers(runs.map(({ health }) => health.consecutive))}::int[],
      ${numbers(runs.map(({ health }) => health.total))}::int[],
      ${numbers(runs.map(({ pausedMs }) => pausedMs))}::bigint[],
      ${numbers(runs.map(({ deliveredAt }) => deliveredAt))}::bigint[],
      ${numbers(runs.map(({ failed }) => failed?.at))}::bigint[],
      ${runs.map(({ failed }) => failed?.code)}::text[],
      ${runs.map(({ failing }) => String(failing?.ends ?? false))}::boolean[],
      ${numbers(runs.map(({ failing }) => failing?.from))}::bigint[])`;
}

/** Returns how far a node that works with a version of the stream may raise its cursor. */
export function cursorMax(run: Run, version: number): Offset {
  if (version === run.version) return Infinity;
  const subscriptions = JSON.parse(run.subscriptions) as Subscription[];
  return firstChangeFrom(subscriptions, run.cursor) ?? Infinity;
}
