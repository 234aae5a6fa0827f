import type { Appended, DeliveryKind, DeliveryState, Health } from '../../../src/core/types.ts';
import { progressOf, type ModelReplay } from './model-replays.ts';
import type { DueRules } from '../../../src/store/port/deliveries.ts';
import type { KeyRows } from '../../../src/store/port/ownership.ts';
import type { Outcome, SettledStream } from '../../../src/store/port/settlement.ts';
import type { WaitRule } from '../../../src/store/port/time.ts';

/**
 * The rules of the contract for log, streams and deliveries, on plain maps and without SQL: the
 * model that random commands are compared with. One tenant, one node, streams by id.
 */
export interface Model {
  readonly log: LoggedEvent[];
  head: number;
  readonly streams: Map<string, ModelStream>;
}

export interface LoggedEvent {
  readonly id: string;
  readonly type: string;
  readonly offset: number;
  readonly publishedAt: number;
}

export interface ModelStream {
  enabled: boolean;
  paused: boolean;
  readonly type: string;
  version: number;
  epoch: number;
  run: number;
  cursor: number;
  consecutive: number;
  /** When the oldest attempt failed since the last success, and when that was. */
  failingSince: number | undefined;
  deliveredAt: number;
  readonly rows: Map<string, ModelRow>;
  /** Outcomes per event, oldest first. */
  readonly history: Map<string, string[]>;
  /** The earliest instant in a history, by the offset of its event. */
  readonly firstAt: Map<number, number>;
  /** By id, in the order of their creation. */
  readonly replays: Map<string, ModelReplay>;
  /** Entries of all histories so far. */
  entries: number;
  /** The statistics: successes, and exhausted cycles. */
  delivered: number;
  failed: number;
}

export interface ModelRow {
  readonly eventId: string;
  readonly offset: number | undefined;
  kind: DeliveryKind;
  state: DeliveryState;
  attempt: number;
  dueAt: number | undefined;
  failedAt: number | undefined;
  readonly orderKey?: string | undefined;
}

export function createModel(): Model {
  return { log: [], head: 0, streams: new Map() };
}

export function newModelStream(model: Model, type: string): ModelStream {
  return {
    enabled: true,
    paused: false,
    type,
    version: 1,
    epoch: 0,
    run: 1,
    cursor: model.head,
    consecutive: 0,
    failingSince: undefined,
    deliveredAt: 0,
    rows: new Map(),
    history: new Map(),
    firstAt: new Map(),
    replays: new Map(),
    entries: 0,
    delivered: 0,
    failed: 0,
  };
}

/** Whether a stream sends what it has, or redeliveries only, and tests while it is enabled. */
export const sends = ({ enabled, paused }: ModelStream): boolean => enabled && !paused;

/** Whether a row of a kind may be sent now. */
export const maySend = (stream: ModelStream, kind: DeliveryKind): boolean =>
  sends(stream) || kind === 'redelivery' || (stream.enabled && kind === 'test');

export const isOpen = (row: ModelRow): boolean => row.failedAt !== undefined;

export const openRows = (stream: ModelStream): ModelRow[] =>
  [...stream.rows.values()].filter(isOpen);

export const waitingRows = (stream: ModelStream): ModelRow[] =>
  [...stream.rows.values()].filter((row) => row.dueAt !== undefined);

export const healthOf = (stream: ModelStream): Health => ({
  consecutive: stream.consecutive,
  total: openRows(stream).length,
});

export function append(model: Model, id: string, type: string, now: number): Appended {
  const known =
    model.log.find((event) => event.id === id)?.offset ??
    [...model.streams.values()].flatMap((stream) => stream.rows.get(id)?.offset ?? [])[0];
  if (known !== undefined) return { id, offset: known, repeated: true };
  model.head += 1;
  const last = model.log.at(-1)?.publishedAt ?? 0;
  model.log.push({ id, type, offset: model.head, publishedAt: Math.max(now, last) });
  return { id, offset: model.head, repeated: false };
}

export function prune(model: Model, before: number, take: number): number {
  const enabled = [...model.streams.values()].filter((stream) => stream.enabled);
  const bound = Math.min(...enabled.map((stream) => stream.cursor));
  let count = 0;
  for (const { offset, publishedAt } of model.log) {
    if (count === take || publishedAt >= before || offset > bound) break;
    count += 1;
  }
  model.log.splice(0, count);
  return count;
}

function remember(
  stream: ModelStream,
  { id, offset }: { readonly id: string; readonly offset?: number | undefined },
  outcome: string,
  now: number,
): void {
  stream.history.set(id, [...(stream.history.get(id) ?? []), outcome]);
  stream.entries += 1;
  if (offset === undefined) return;
  // Not the first entry: the clock may have been set back since.
  stream.firstAt.set(offset, Math.min(stream.firstAt.get(offset) ?? now, now));
}

/** One settlement of one outcome. */
export function settle(
  stream: ModelStream,
  outcome: Outcome,
  given: { cursor: number; run: number; now: number; limits: Health },
): SettledStream {
  const version = stream.version;
  const wasEnabled = stream.enabled;
  const before = healthOf(stream);
  const isCutShort = applyOutcome(stream, outcome, given.now);
  const changed = isCutShort ? { keysChanged: true } : {};
  if (given.run === stream.run) stream.cursor = Math.max(stream.cursor, given.cursor);
  const health = healthOf(stream);
  const rose = health.consecutive > before.consecutive;
  const isGone = 'goneVersion' in outcome && outcome.goneVersion === version;
  const limit = health.consecutive >= given.limits.consecutive ? 'consecutive' : 'total';
  const reason = isGone ? 'gone' : limit;
  const atLimit = rose && (limit === 'consecutive' || health.total >= given.limits.total);
  const { cursor } = stream;
  if (!wasEnabled || !(isGone || atLimit)) {
    return { result: 'recorded', version, cursor, health, ...changed, disabledBy: undefined };
  }
  disable(stream, given.now);
  return {
    result: 'recorded',
    version: stream.version,
    cursor,
    health: healthOf(stream),
    ...changed,
    disabledBy: reason,
  };
}

/** Returns whether an ordered event ended although its outcome is a retry. */
function applyOutcome(stream: ModelStream, outcome: Outcome, now: number): boolean {
  const { event, result, attempt, kind } = outcome;
  const row = stream.rows.get(event.id);
  if (result === 'delivered') {
    remember(stream, event, 'delivered', now);
    stream.delivered += 1;
    stream.consecutive = 0;
    stream.failingSince = undefined;
    stream.deliveredAt = now;
    if (outcome.hasRow) progressOf(stream, row, 'sent');
    if (outcome.hasRow) stream.rows.delete(event.id);
    return false;
  }
  if (result === 'blocked') {
    if (row === undefined) stream.rows.set(event.id, blockedRow(outcome));
    return false;
  }
  if (result !== 'parked') remember(stream, event, 'failed', now);
  if (result !== 'parked') {
    const began = Math.max(now - outcome.agoMs, stream.deliveredAt);
    stream.failingSince = Math.min(stream.failingSince ?? began, began);
  }
  const isOver = row === undefined ? outcome.hasRow : row.state === 'failed';
  if (isOver) return false;
  const fails =
    result === 'failed' || (result === 'retry' && !stream.enabled && endsWithStream(kind));
  if (fails) stream.consecutive += 1;
  if (fails) stream.failed += 1;
  if (fails) progressOf(stream, row, 'failed');
  stream.rows.set(event.id, {
    eventId: event.id,
    offset: event.offset,
    kind: row?.kind ?? kind,
    state: fails ? 'failed' : isParked(stream, outcome) ? 'parked' : 'retrying',
    attempt: result === 'retry' && !fails ? attempt + 1 : attempt,
    dueAt: fails ? undefined : dueAtOf(outcome, now),
    failedAt: row?.failedAt ?? (fails ? now : undefined),
    orderKey: row === undefined ? outcome.orderKey : row.orderKey,
  });
  return fails && result === 'retry' && outcome.orderKey !== undefined;
}

/** An attempt that could not be made waits, unless its stream is disabled. */
function isParked({ enabled }: ModelStream, outcome: Outcome): boolean {
  if (outcome.result !== 'parked') return false;
  return outcome.hasEnded !== true || (!enabled && endsWithStream(outcome.kind));
}

function blockedRow({ event: { id, offset }, orderKey }: Outcome): ModelRow {
  const never = { dueAt: undefined, failedAt: undefined };
  return { eventId: id, offset, kind: 'first', state: 'blocked', attempt: 1, orderKey, ...never };
}

function dueAtOf(outcome: Outcome, now: number): number | undefined {
  if (outcome.result === 'parked') return now + outcome.leaseMs;
  return outcome.result === 'retry' ? now + outcome.delayMs : undefined;
}

export function disable(stream: ModelStream, now: number): void {
  stream.enabled = false;
  stream.version += 1;
  failRows(stream, 'retrying', now);
}

function failRows(stream: ModelStream, state: DeliveryState, now: number): void {
  for (const row of stream.rows.values()) {
    if (row.state !== state || !endsWithStream(row.kind)) continue;
    Object.assign(row, { state: 'failed', dueAt: undefined, failedAt: now });
    stream.consecutive += 1;
    stream.failed += 1;
    remember(stream, { ...row, id: row.eventId }, 'failed', now);
  }
}

const endsWithStream = (kind: DeliveryKind): boolean => kind === 'first' || kind === 'test';

/** Returns how many retained events are passed over. */
export function enable(model: Model, stream: ModelStream, resume: 'latest' | 'held'): number {
  stream.enabled = true;
  stream.version += 1;
  stream.run += 1;
  stream.consecutive = 0;
  stream.failingSince = undefined;
  if (resume === 'held') return 0;
  const skipped = model.log.filter(
    ({ offset, type, id }) =>
      offset > stream.cursor && type === stream.type && !stream.rows.has(id),
  );
  stream.cursor = model.head;
  return skipped.length;
}

/** Claims the stream for a node that has just joined. Returns false when it has nothing to do. */
export function claim(stream: ModelStream, now: number): boolean {
  const rows = waitingRows(stream).filter(({ kind }) => kind !== 'replay');
  if (!stream.enabled && rows.length === 0) return false;
  stream.epoch += 1;
  if (!stream.enabled) failRows(stream, 'parked', now);
  for (const row of stream.rows.values()) if (row.state === 'parked') row.dueAt = now;
  return true;
}

export function claimDue(
  stream: ModelStream,
  now: number,
  rules: DueRules,
  take: number,
  keys: readonly string[] = [],
): { taken: string[]; nextDueInMs: number | undefined } {
  const next = sends(stream) ? keys.flatMap((key) => oldestBlocked(stream, key) ?? []) : [];
  const due = waitingRows(stream)
    .filter(({ kind }) => maySend(stream, kind))
    .toSorted(byDueAt);
  const [others, replayed] = [false, true].map((isReplay) =>
    due.filter((row) => (row.kind === 'replay') === isReplay && waitOf(row, now, rules) === 0),
  );
  const rest = [...(others ?? []), ...(replayed ?? [])].slice(0, take - next.length);
  const taken = [...next, ...rest];
  const left = due.filter((row) => !taken.includes(row));
  const nextDueInMs = firstOf(left, now, rules);
  for (const row of taken) Object.assign(row, { state: 'parked', dueAt: now + rules.leaseMs });
  return { taken: taken.map((row) => row.eventId), nextDueInMs };
}

function oldestBlocked(stream: ModelStream, key: string): ModelRow | undefined {
  const ofKey = [...stream.rows.values()].filter(({ orderKey }) => orderKey === key);
  const isHeld = ofKey.some(({ kind, dueAt }) => kind === 'first' && dueAt !== undefined);
  if (isHeld) return undefined;
  return ofKey
    .filter(({ state }) => state === 'blocked')
    .toSorted((one, other) => (one.offset ?? 0) - (other.offset ?? 0))[0];
}

/** A row that waits longer than allowed is due now. */
function waitOf(row: ModelRow, now: number, { longestWaitMs }: WaitRule): number {
  const waitMs = (row.dueAt ?? 0) - now;
  return waitMs > longestWaitMs ? 0 : Math.max(0, waitMs);
}

function firstOf(rows: readonly ModelRow[], now: number, rule: WaitRule): number | undefined {
  return rows.map((row) => waitOf(row, now, rule)).toSorted((one, other) => one - other)[0];
}

function byDueAt(one: ModelRow, other: ModelRow): number {
  return (one.dueAt ?? 0) - (other.dueAt ?? 0) || (one.eventId < other.eventId ? -1 : 1);
}

export function redeliver(
  model: Model,
  stream: ModelStream,
  eventId: string,
  now: number,
): 'accepted' | 'retrying' | 'delivered' | 'unknown' {
  const row = stream.rows.get(eventId);
  if (row === undefined) {
    const known = eventId.startsWith('test_') || model.log.some((event) => event.id === eventId);
    const succeeded = stream.history.get(eventId)?.includes('delivered') ?? false;
    return known && succeeded ? 'delivered' : 'unknown';
  }
  if (row.state !== 'failed') return 'retrying';
  Object.assign(row, { kind: 'redelivery', state: 'retrying', attempt: 1, dueAt: now });
  remember(stream, { ...row, id: eventId }, 'redelivered', now);
  return 'accepted';
}

/** Removes the failures of these events, or all, up to the cursor; returns their rows. */
export function dismiss(
  stream: ModelStream,
  eventIds: readonly string[] | undefined,
  now: number,
): ModelRow[] {
  const failed = openRows(stream).filter(({ state }) => state === 'failed');
  const dismissed = failed.filter(
    ({ eventId, offset }) =>
      (offset ?? 0) <= stream.cursor && eventIds?.includes(eventId) !== false,
  );
  for (const row of dismissed) {
    stream.rows.delete(row.eventId);
    remember(stream, { ...row, id: row.eventId }, 'dismissed', now);
  }
  return dismissed;
}

/** Ids of the open failures, newest first. */
export function failures(stream: ModelStream): string[] {
  return openRows(stream)
    .toSorted(
      (one, other) =>
        (other.failedAt ?? 0) - (one.failedAt ?? 0) || (one.eventId < other.eventId ? 1 : -1),
    )
    .map((row) => row.eventId);
}

/** Returns the state that a runner would start from. */
export function runOf(stream: ModelStream, now: number, rule: WaitRule) {
  const waiting = waitingRows(stream);
  const offsets = [...stream.rows.values()].flatMap((row) => row.offset ?? []);
  const { epoch, run, cursor } = stream;
  return {
    epoch,
    run,
    cursor,
    waiting: waiting.filter(({ kind }) => endsWithStream(kind)).length,
    waitingReplays: waiting.filter(({ kind }) => kind === 'replay').length,
    health: healthOf(stream),
    nextDueInMs: firstOf(
      waiting.filter(({ kind }) =>
        stream.paused ? maySend(stream, kind) : stream.enabled || kind !== 'replay',
      ),
      now,
      rule,
    ),
    replay: [...stream.replays.values()].find(({ status }) => status === 'running')?.id,
    isRefused: false,
    takenAbove: offsets.filter((offset) => offset > cursor).toSorted((one, other) => one - other),
    keys: keysOf(stream),
  };
}

/** The keys that have blocked rows, or a first delivery that waits; none of these streams blocks. */
function keysOf(stream: ModelStream): KeyRows[] {
  const byKey = Map.groupBy(stream.rows.values(), ({ orderKey }) => orderKey);
  return [...byKey]
    .flatMap(([key, rows]) => {
      if (key === undefined) return [];
      const blocked = rows.filter(({ state }) => state === 'blocked').length;
      const held = rows.some(({ kind, dueAt }) => kind === 'first' && dueAt !== undefined);
      return blocked > 0 || held ? [{ key, blocked, held, failed: 0 }] : [];
    })
    .toSorted((one, other) => (one.key < other.key ? -1 : 1));
}
