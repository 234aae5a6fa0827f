import type { Millis } from '../../core/clock.ts';
import type { DeliveryKind, StreamStatus } from '../../core/types.ts';
import { verbatim } from '../commands/dialect.ts';
import type { Run } from '../rows/runs.ts';

/** Returns how long a stream has been paused in total, its present pause included. */
export function pausedFor({ pausedAt, pausedMs }: PausedRun, now: Millis): number {
  return pausedAt === null ? pausedMs : pausedMs + Math.max(0, now - pausedAt);
}

/** Returns the run of a stream that is resumed; the same one if it is not paused. */
export function resumedAt(run: Run, now: Millis): Run {
  return run.pausedAt === null ? run : { ...run, pausedAt: null, pausedMs: pausedFor(run, now) };
}

/** What a stream sends depends on this. */
export interface Sending {
  readonly status: StreamStatus;
  readonly isPaused: boolean;
}

export function sendingOf({ status, pausedAt }: Pick<Run, 'status' | 'pausedAt'>): Sending {
  return { status, isPaused: pausedAt !== null };
}

/** Returns whether a delivery may be sent: of a disabled stream a redelivery alone, of a paused one also a test. */
export function mayBeSent(kind: DeliveryKind, { status, isPaused }: Sending): boolean {
  return kind === 'redelivery' || (status === 'enabled' && (!isPaused || kind === 'test'));
}

const kinds: readonly DeliveryKind[] = ['first', 'redelivery', 'test', 'replay'];

/** Returns the kinds that {@link mayBeSent}. */
export function sentKinds(sending: Sending): readonly DeliveryKind[] {
  return kinds.filter((kind) => mayBeSent(kind, sending));
}

/** Returns whether a delivery that waits becomes a failure when its stream is disabled. */
export function endsWithStream(kind: DeliveryKind): boolean {
  return kind === 'first' || kind === 'test';
}

/** Deliveries of a kind that {@link endsWithStream}. */
export const endWithStream = verbatim("kind in ('first', 'test')");

/** Streams `s` that send what {@link mayBeSent} of every kind. */
export const sendsAll = verbatim("s.status = 'enabled' and s.paused_at is null");

/** The deliveries of one kind of a stream that wait or are in progress. */
export interface DueKind {
  readonly kind: DeliveryKind;
  readonly count: number;
  readonly first_due_at: Millis;
  readonly last_due_at: Millis;
}

/**
 * Returns how many deliveries count against the fresh work of a stream and of its replay, and the earliest and
 * latest instants that its node waits for: of a disabled stream also those at which what ends with it is due.
 */
export function waitingOf(
  due: readonly DueKind[],
  sending: Sending,
): { readonly waiting: number; readonly replays: number; readonly dueAts: readonly Millis[] } {
  const countOf = (...wanted: readonly DeliveryKind[]): number =>
    due.reduce((sum, { kind, count }) => sum + (wanted.includes(kind) ? count : 0), 0);
  const isAwaited = (kind: DeliveryKind): boolean =>
    sending.status === 'disabled' ? kind !== 'replay' : mayBeSent(kind, sending);
  const awaited = due.filter(({ kind }) => isAwaited(kind));
  return {
    waiting: countOf('first', 'test'),
    replays: countOf('replay'),
    dueAts: awaited.flatMap((each) => [each.first_due_at, each.last_due_at]),
  };
}

type PausedRun = Pick<Run, 'pausedAt' | 'pausedMs'>;
