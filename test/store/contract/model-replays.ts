import type { FeedAnswer } from '../../../src/store/port-replays.ts';
import type { Replay } from '../../../src/core/types.ts';
import type { Model, ModelRow, ModelStream } from './model.ts';

/** What the contract says of replays, as {@link Model} says it of everything else. */
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
  asked: Pick<ModelReplay, 'tenant' | 'stream' | 'id' | 'from' | 'to' | 'types'>,
  now: number,
): ModelReplay | { readonly refused: 'disabled' | 'running' } {
  if (!stream.enabled) return { refused: 'disabled' };
  if (runningOf(stream) !== undefined) return { refused: 'running' };
  const from = Math.max(asked.from, prunedTo(model));
  const isEmpty = from >= asked.to;
  const replay: ModelReplay = {
    ...asked,
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

/** Of the running one; `cursor` is as far as the owner may raise it. */
export function feed(
  model: Model,
  stream: ModelStream,
  ask: { readonly cursor: number; readonly take: number; readonly waitingMax: number },
  now: number,
): FeedAnswer {
  stream.cursor = Math.max(stream.cursor, ask.cursor);
  const { cursor } = stream;
  const replay = runningOf(stream);
  if (replay === undefined) return { result: 'over', cursor, fed: 0, more: false };
  const end = (status: 'done' | 'failed'): FeedAnswer => {
    Object.assign(replay, { status, finishedAt: now });
    return { result: 'over', cursor, fed: 0, more: false };
  };
  const nothing: FeedAnswer = { result: 'running', cursor, fed: 0, more: false };
  const waiting = waitingOf(stream).length;
  const isRead = replay.position >= replay.to;
  if (!stream.enabled) return nothing;
  if (isRead || prunedTo(model) > replay.position) {
    return waiting > 0 ? nothing : end(isRead ? 'done' : 'failed');
  }
  const room = Math.min(ask.take, ask.waitingMax - waiting);
  const upTo = Math.min(replay.to, cursor);
  if (room <= 0 || upTo <= replay.position) return nothing;
  const found = model.log
    .filter((event) => event.offset > replay.position && event.offset <= upTo)
    .filter((event) => event.type === stream.type && replay.types?.includes(event.type) !== false)
    .filter((event) => !stream.rows.has(event.id))
    .filter((event) => event.offset <= replay.passed || wasSent(stream, replay, event.offset))
    .slice(0, room);
  for (const event of found) {
    const { id: eventId, offset } = event;
    const row = { kind: 'replay', state: 'retrying', attempt: 1, dueAt: now } as const;
    stream.rows.set(eventId, { eventId, offset, ...row, failedAt: undefined });
  }
  replay.position = found.length === room ? (found.at(-1)?.offset ?? upTo) : upTo;
  replay.matched += found.length;
  if (replay.position >= replay.to && waiting + found.length === 0) return end('done');
  return { ...nothing, fed: found.length };
}

function wasSent(stream: ModelStream, { createdAt }: ModelReplay, offset: number): boolean {
  return (stream.firstAt.get(offset) ?? 0) < createdAt + 1000;
}
