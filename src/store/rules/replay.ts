import type { Millis } from '../../core/clock.ts';
import { selectionNow } from '../../core/subscription.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import type {
  MaterializeResult,
  MaterializeRequest,
  NewReplay,
  UnfilteredStretch,
} from '../port/replays.ts';
import type { StoredReplay } from '../rows/replays.ts';

/** The rules for going through the range of a replay. */

/** Offsets that one step scans: some milliseconds for a type that never occurs. */
const scanMax = 10_000;

/** The clocks of two nodes differ by less, as a rule. */
const skewMs = 1000;

/**
 * Returns a new accepted replay. `prunedTo`: events up to there are gone. It ends at the `head` if
 * the log was longer when its end was chosen and has become shorter since.
 */
export function acceptedReplay(
  { tenant, stream, id, from, types, offsets, ...requested }: NewReplay,
  {
    cursor,
    prunedTo,
    head,
  }: Pick<MaterializeState, 'cursor' | 'prunedTo'> & { readonly head: Offset },
  now: Millis,
): StoredReplay {
  const to = Math.min(requested.to, head);
  const start = Math.max(from, prunedTo);
  const isEmpty = start >= to;
  return {
    tenant,
    stream,
    id,
    from: start,
    position: start,
    to,
    passed: cursor,
    types,
    offsets,
    matched: 0,
    sent: 0,
    failed: 0,
    createdAt: now,
    status: isEmpty ? 'done' : 'running',
    finishedAt: isEmpty ? now : undefined,
  };
}

/** The state that is read before a replay continues. */
export interface MaterializeState {
  /** Of the stream, as it is now. */
  readonly cursor: Offset;
  /** Whether the stream is enabled and not paused. */
  readonly sends: boolean;
  readonly subscriptions: readonly Subscription[];
  /** Deliveries of the replay that wait or are in progress. */
  readonly waiting: number;
  /** Events up to here are pruned. */
  readonly prunedTo: Offset;
}

/** The next step: to read a stretch of the log, to end, or to wait for a change. */
export type MaterializeStep =
  | {
      readonly step: 'read';
      /** The stretch begins after this… */
      readonly after: Offset;
      /** …and ends here. */
      readonly upTo: Offset;
      /** Empty when nothing of the stretch is wanted; then it need not be read. */
      readonly types: readonly string[];
      /** Maximum events to take. */
      readonly take: number;
      /** Events to take, where they were filtered. */
      readonly offsets?: readonly Offset[] | undefined;
    }
  | ({ readonly step: 'filter' } & UnfilteredStretch)
  | { readonly step: 'end'; readonly status: 'done' | 'failed' }
  | { readonly step: 'wait' };

/**
 * Decides the next step. Events above the cursor are still to be sent by the stream itself: a row
 * for one of them would have it sent twice. Events that were pruned ahead of the position are
 * skipped: the oldest events of a long range are pruned all the time, and the others are still to
 * be sent.
 */
export function nextMaterializeStep(
  replay: StoredReplay,
  request: MaterializeRequest,
  state: MaterializeState,
): MaterializeStep {
  const { position, to } = replay;
  const isRead = position >= to;
  if (!state.sends) return { step: 'wait' };
  if (isRead || state.prunedTo >= to) {
    if (state.waiting > 0) return { step: 'wait' };
    return { step: 'end', status: isRead ? 'done' : 'failed' };
  }
  const take = Math.min(request.take, request.waitingMax - state.waiting);
  const begin = Math.max(position, state.prunedTo);
  // Up to the next chosen event there is nothing to read.
  const after = Math.max(begin, (replay.offsets?.find((offset) => offset > begin) ?? 0) - 1);
  const readable = Math.min(to, state.cursor);
  if (take <= 0 || readable <= after) return { step: 'wait' };
  const { types: wanted, filter } = selectionNow(state.subscriptions);
  const types = wanted.filter((type) => replay.types === undefined || replay.types.includes(type));
  const upTo = types.length === 0 ? readable : Math.min(readable, after + scanMax);
  const isIn = (offset: Offset): boolean => offset > after && offset <= upTo;
  const chosen = replay.offsets?.filter(isIn);
  if (filter === undefined || types.length === 0) {
    return { step: 'read', after, upTo, types, take, offsets: chosen };
  }
  const { filtered } = request;
  const isFiltered =
    filtered?.filter === filter &&
    types.every((type) => filtered.types.includes(type)) &&
    filtered.after <= after &&
    filtered.upTo > after;
  if (!isFiltered) return { step: 'filter', after, upTo, types, filter };
  const matching = new Set(filtered.offsets);
  const offsets = chosen?.filter((offset) => matching.has(offset)) ?? filtered.offsets;
  return { step: 'read', after, upTo: Math.min(upTo, filtered.upTo), types, take, offsets };
}

/** Returns the state after a stretch was read: the added rows are of these events, in order. */
export function afterRead(
  replay: StoredReplay,
  step: Extract<MaterializeStep, { step: 'read' }>,
  offsets: readonly Offset[],
  { cursor, waiting }: MaterializeState,
): { readonly after: StoredReplay; readonly progress: Omit<MaterializeResult, 'cursor'> } {
  const materialized = offsets.length;
  const isFull = materialized >= step.take;
  const position = isFull ? (offsets.at(-1) ?? step.upTo) : step.upTo;
  const isOver = position >= replay.to && materialized + waiting === 0;
  const status = isOver ? 'done' : replay.status;
  const after = { ...replay, status, position, matched: replay.matched + materialized } as const;
  const more = !isOver && !isFull && position < Math.min(replay.to, cursor);
  return { after, progress: { result: isOver ? 'over' : 'running', materialized, more } };
}

/**
 * Returns the instant before which an event counts as sent. Events that the cursor had not passed
 * when the replay was accepted belong to the range only if they had been sent by then: their first
 * attempt is older than this.
 */
export function sentBefore({ createdAt }: StoredReplay): Millis {
  return createdAt + skewMs;
}

/** The result for a stream that the caller no longer owns. */
export const lostStream: MaterializeResult = {
  result: 'lost',
  cursor: 0,
  materialized: 0,
  more: false,
};
