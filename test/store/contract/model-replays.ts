import type { MaterializeResult } from '../../../src/store/port/replays.ts';
import type { Replay } from '../../../src/core/types.ts';
import type { Model, ModelRow, ModelStream } from './model.ts';

/** The rules of the contract for replays, as {@link Model} has them for everything else. */
export interface ModelReplay extends Omit<
  Replay,
  'status' | 'matched' | 'sent' | 'failed' | 'finishedAt'
> {
  status: Replay['status'];
  matched: number;
  sent: number;
  failed: number;
  finishedAt: number | undefined;
  position: number;
  readonly to: number;
  readonly passed: number;
  readonly types: readonly string[] | undefined;
}

export const runningOf = ({ replays }: ModelStream): ModelReplay | undefined =>
  [...replays.values()].find(({ status }) => status === 'running');

/** As the port has it. */
export function shownReplay(replay: ModelReplay): Replay {
  const { tenant, stream, id, status, from, matched, sent, failed } = replay;
  const { createdAt, finishedAt } = replay;
  return { tenant, stream, id, status, from, matched, sent, failed, createdAt, finishedAt };
}

/** A row of a replay ended so, unless it had ended before. */
export function progressOf(
  stream: ModelStream,
  row: ModelRow | undefined,
  how: 'sent' | 'failed',
): void {
  const running = runningOf(stream);
  if (running !== undefined && row?.kind === 'replay' && row.state !== 'failed') running[how] += 1;
}

const prunedTo = ({ log, head }: Model): number => (log[0]?.offset ?? head + 1) - 1;

export function createReplay(
  model: Model,
  stream: ModelStream,
  requested: Pick<ModelReplay, 'tenant' | 'stream' | 'id' | 'from' | 'to' | 'types'>,
  now: number,
): ModelReplay | { readonly refused: 'disabled' | 'running' } {
  if (!stream.enabled) return { refused: 'disabled' };
  if (runningOf(stream) !== undefined) return { refused: 'running' };
  const from = Math.max(requested.from, prunedTo(model));
  const to = Math.min(requested.to, model.head);
  const isEmpty = from >= to;
  const replay: ModelReplay = {
    ...requested,
    to,
    status: isEmpty ? 'done' : 'running',
    from,
    position: from,
    passed: stream.cursor,
    matched: 0,
    sent: 0,
    failed: 0,
    createdAt: now,
    finishedAt: isEmpty ? now : undefined,
  };
  stream.replays.set(replay.id, replay);
  return replay;
}

const waitingOf = ({ rows }: ModelStream): ModelRow[] =>
  [...rows.values()].filter(({ kind, dueAt }) => kind === 'replay' && dueAt !== undefined);

export function cancelReplay(stream: ModelStream, id: string, now: number): boolean {
  const replay = stream.replays.get(id);
  if (replay?.status !== 'running') return replay !== undefined;
  Object.assign(replay, { status: 'cancelled', finishedAt: now });
  for (const { eventId } of waitingOf(stream)) stream.rows.delete(eventId);
  return true;
}

const none = { materialized: 0, more: false, ids: [] } as const;

/** The request of the owner of a stream, and the types that the stream wants. */
export interface ModelRequest {
  /** As far as the owner may raise it. */
  readonly cursor: number;
  readonly take: number;
  readonly waitingMax: number;
  readonly wanted: readonly string[];
  /** The end of the stretch that was filtered; absent without a filter. */
  readonly filteredTo?: number | undefined;
  /** When an event was first sent, according to the history. */
  firstAt(offset: number): number | undefined;
}

/** Continues the running replay; also returns the ids of the events. */
export function materialize(
  model: Model,
  stream: ModelStream,
  request: ModelRequest,
  now: number,
): MaterializeResult & { readonly ids: readonly string[] } {
  stream.cursor = Math.max(stream.cursor, request.cursor);
  const { cursor } = stream;
  const replay = runningOf(stream);
  if (replay === undefined) return { ...none, result: 'over', cursor };
  const end = (status: 'done' | 'failed') => {
    Object.assign(replay, { status, finishedAt: now });
    return { ...none, result: 'over', cursor } as const;
  };
  const nothing = { ...none, result: 'running', cursor } as const;
  const waiting = waitingOf(stream).length;
  const isRead = replay.position >= replay.to;
  if (!stream.enabled || stream.paused) return nothing;
  if (isRead || prunedTo(model) >= replay.to) {
    return waiting > 0 ? nothing : end(isRead ? 'done' : 'failed');
  }
  const room = Math.min(request.take, request.waitingMax - waiting);
  const upTo = Math.min(replay.to, cursor, request.filteredTo ?? Infinity);
  if (room <= 0 || upTo <= Math.max(replay.position, prunedTo(model))) return nothing;
  const found = model.log
    .filter((event) => event.offset > replay.position && event.offset <= upTo)
    .filter(({ type }) => request.wanted.includes(type) && replay.types?.includes(type) !== false)
    .filter((event) => !stream.rows.has(event.id))
    .filter((event) => event.offset <= replay.passed || wasSent(request, replay, event.offset))
    .slice(0, room);
  for (const event of found) {
    const { id: eventId, offset } = event;
    const row = { kind: 'replay', state: 'retrying', attempt: 1, dueAt: now } as const;
    stream.rows.set(eventId, { eventId, offset, ...row, failedAt: undefined });
  }
  replay.position = found.length === room ? (found.at(-1)?.offset ?? upTo) : upTo;
  replay.matched += found.length;
  if (replay.position >= replay.to && waiting + found.length === 0) return end('done');
  return { ...nothing, materialized: found.length, ids: found.map(({ id }) => id) };
}

function wasSent({ firstAt }: ModelRequest, { createdAt }: ModelReplay, offset: number): boolean {
  return (firstAt(offset) ?? 0) < createdAt + 1000;
}
