import type { Reopened } from '../../src/store/port/dismissals.ts';
import type { NewFailureWork, StepResult } from '../../src/store/port/failure-work.ts';
import { isOfCodes, type ErrorCode } from '../../src/core/error-code.ts';
import * as model from '../store/contract/model.ts';
import type { OracleCore } from './oracle-core.ts';
import type { Results } from './results.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Tables } from './tables.ts';

export type WorkKind = 'redeliveries' | 'dismissals';

/**
 * What became of a failure of a request: no step has read it; a redelivery has begun its cycle; the cycle
 * ended; it was dismissed; it was opened again; it stayed as it was.
 */
type Fate = 'unread' | 'begun' | 'delivered' | 'failed' | 'dismissed' | 'reopened' | 'skipped';

/** A request about many failures, as the store should have it. */
interface Work {
  readonly kind: WorkKind;
  readonly request: NewFailureWork;
  readonly acceptedAt: number;
  /** Failures that were opened from then on are no part of it. */
  readonly failedTo: number;
  /** In the order of their ids, with the fates of their failures by event. */
  readonly streams: Map<string, Map<string, Fate>>;
  /**
   * By stream, failures that match only since the clock was set back and took the places of others, which
   * were counted and then closed in another way: a step tells neither from those that were counted.
   */
  readonly swapped: Map<string, number>;
  work: 'taking' | 'cancelling' | 'none';
  /** The stream that the next step works on. */
  position: number;
  /** The last failure of that stream that a step has read. */
  after: { readonly failedAt: number; readonly eventId: string } | undefined;
  isCancelled: boolean;
  /** What a dismissal has closed and may open again, by stream and event. */
  readonly closed: Map<string, Map<string, model.ModelRow>>;
  /** The limit of open failures while it opens them again. */
  reopenBelow: number | undefined;
}

/** How long a dismissal waits for cursors. */
const passingMs = 2000;
const keptMs = 30 * 86_400_000;

/** Redeliveries and dismissals of many failures: which failures they act on, and their progress. */
export class FailureWorks {
  readonly #core: OracleCore;
  readonly #tables: Tables;
  #works = new Map<string, Work>();
  /** Old requests that upkeep has removed: their failures may still be open. */
  #removed: readonly Work[] = [];

  readonly #endOf: Results['endedAs'];

  constructor(core: OracleCore, tables: Tables, endOf: Results['endedAs']) {
    this.#core = core;
    this.#tables = tables;
    this.#endOf = endOf;
    tables.watch({ note: (stream) => this.#note(stream), check: (stream) => this.#check(stream) });
  }

  snapshot(): readonly Work[] {
    return structuredClone([...this.#works.values()]);
  }

  restore(works: readonly Work[]): void {
    this.#works = new Map(structuredClone(works).map((work) => [work.request.id, work]));
    this.#removed = this.#removed.filter(({ request }) => !this.#works.has(request.id));
  }

  /** Notes that a request was accepted: it is about the failures that are open now. */
  accepted(kind: WorkKind, request: NewFailureWork, now: number): void {
    const { id, tenant, streams } = request;
    const row = this.#core.deps.sharedStore.db.get<{ selection: string }>`
      select selection from redeliveries where tenant = ${tenant} and id = ${id}
      union all
      select selection from dismissals where tenant = ${tenant} and id = ${id}`;
    if (row === undefined) return this.#core.violate('lost', `${id} was accepted`);
    const { failedTo } = JSON.parse(row.selection) as { readonly failedTo: number };
    const newest = this.#core.deps.sharedStore.db.get<{ at: number | null }>`
      select max(listed_at) as at from deliveries where tenant = ${tenant}`;
    if (failedTo > Math.max(Math.ceil(now), (newest?.at ?? 0) + 1))
      this.#core.violate('requested', `${id} takes failures that are opened before ${failedTo}`);
    const work: Work = {
      kind,
      request,
      acceptedAt: now,
      failedTo,
      streams: new Map(),
      swapped: new Map(),
      work: 'taking',
      position: 0,
      after: undefined,
      isCancelled: false,
      closed: new Map(),
      reopenBelow: undefined,
    };
    const among = this.#core
      .existing()
      .filter((one) => one.log.tenant === tenant && streams?.includes(one.id) !== false)
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    for (const stream of among) {
      const open = this.#matching(work, stream).map(({ eventId }) => [eventId, 'unread'] as const);
      if (open.length > 0) work.streams.set(stream.id, new Map(open));
    }
    if (work.streams.size === 0) work.work = 'none';
    this.#works.set(id, work);
    this.#checkAll(work);
  }

  /** Forgets the requests of a tenant that is removed. */
  left(tenant: number): void {
    for (const [id, { request }] of this.#works)
      if (request.tenant === tenant) this.#works.delete(id);
  }

  cancelled(id: string): void {
    const work = this.#works.get(id);
    if (work === undefined) return;
    Object.assign(work, { work: 'cancelling', position: 0, after: undefined, isCancelled: true });
  }

  /** Checks, once the response says so, that nothing of a request is left that has not begun. */
  cancellationDone(id: string): void {
    const work = this.#works.get(id);
    if (work === undefined) return;
    for (const [streamId, fates] of work.streams) {
      const stream = this.#core.streams.get(streamId);
      for (const [eventId, fate] of fates) {
        const row = stream?.counts.rows.get(eventId);
        const waits = fate === 'begun' && row?.state === 'retrying' && row.attempt === 1;
        if (fate === 'unread' || waits)
          this.#core.violate('requested', `${id} is cancelled, and ${eventId} is yet to be sent`);
      }
    }
  }

  /** Notes a step. Returns the stream that it has worked on. */
  stepped(id: string, result: StepResult, now: number): SimulatedStream | undefined {
    const work = this.#works.get(id);
    if (work?.reopenBelow !== undefined) return this.#reopen(work, work.reopenBelow, result);
    if (work === undefined || work.work === 'none') {
      if (result !== 'done') this.#core.violate('requested', `${id} has no work left`);
      return undefined;
    }
    const streamId = [...work.streams.keys()][work.position] ?? '';
    const stream = this.#core.streams.get(streamId);
    const fates = work.streams.get(streamId);
    if (stream === undefined || stream.isDeleted || fates === undefined) {
      this.#passStream(work, result);
      return undefined;
    }
    if (work.work === 'cancelling') giveBack(stream, fates);
    else if (work.kind === 'redeliveries') this.#begin(work, stream, fates, now);
    else if (!this.#dismiss(work, stream, fates, now)) {
      if (result !== 'waiting') this.#core.violate('requested', `${id} does not wait for cursors`);
      this.#tables.check(stream);
      return stream;
    }
    for (const [eventId, fate] of fates) if (fate === 'unread') fates.set(eventId, 'skipped');
    this.#passStream(work, result);
    this.#tables.check(stream);
    return stream;
  }

  /** Notes that a step is done with a stream: the one of the last stream is the last one. */
  #passStream(work: Work, result: StepResult): void {
    Object.assign(work, { position: work.position + 1, after: undefined });
    const isOver = work.position >= work.streams.size;
    if (isOver) work.work = 'none';
    if (isOver !== (result === 'done'))
      this.#core.violate('requested', `the last step of ${work.request.id} is over: ${isOver}`);
  }

  #begin(work: Work, stream: SimulatedStream, fates: Map<string, Fate>, now: number): void {
    const rows = this.#matching(work, stream);
    const late = countUnknown(fates, rows);
    for (const { eventId, state } of rows) {
      fates.set(eventId, state === 'failed' ? 'begun' : 'skipped');
      if (state !== 'failed') continue;
      model.redeliver(stream.log.model, stream.counts, eventId, now);
      stream.cycles.set(eventId, (stream.cycles.get(eventId) ?? 0) + 1);
    }
    noteSwapped(work, stream.id, fates, late);
  }

  /** Returns false if the step waits for the cursor to pass a failure. */
  #dismiss(work: Work, stream: SimulatedStream, fates: Map<string, Fate>, now: number): boolean {
    const { counts } = stream;
    const isAbove = ({ state, offset }: model.ModelRow): boolean =>
      state === 'failed' && (offset ?? 0) > counts.cursor;
    const rows = this.#matching(work, stream);
    const waits = Math.abs(now - work.acceptedAt) < passingMs ? rows.findIndex(isAbove) : -1;
    const ready = waits < 0 ? rows : rows.slice(0, waits);
    const late = countUnknown(fates, ready);
    for (const row of ready) {
      const isDismissed = row.state === 'failed' && !isAbove(row);
      fates.set(row.eventId, isDismissed ? 'dismissed' : 'skipped');
      if (!isDismissed) continue;
      stream.dismissedAt.set(row.offset ?? row.eventId, now);
      this.#close(work, stream, row);
    }
    noteSwapped(work, stream.id, fates, late);
    const ids = ready.filter((row) => row.state === 'failed').map(({ eventId }) => eventId);
    model.dismiss(counts, ids, now);
    const last = ready.at(-1);
    if (last?.failedAt !== undefined)
      work.after = { failedAt: last.failedAt, eventId: last.eventId };
    return waits < 0;
  }

  /** Notes what a dismissal may open again: not a test, which has no event in the log. */
  #close(work: Work, { id }: SimulatedStream, row: model.ModelRow): void {
    if (row.offset === undefined) return;
    for (const { closed } of this.#works.values()) closed.get(id)?.delete(row.eventId);
    const rows = work.closed.get(id) ?? new Map<string, model.ModelRow>();
    work.closed.set(id, rows.set(row.eventId, { ...row }));
  }

  /** Notes a request to open again what a dismissal has closed. */
  reopening(id: string, below: number, result: Reopened): void {
    const work = this.#works.get(id);
    if (work === undefined) return;
    const isRunning = typeof result === 'object' && result.refused === 'running';
    if (isRunning !== (work.work !== 'none'))
      this.#core.violate('requested', `${id} is ${work.work}, its reopening ${isRunning}`);
    if (typeof result === 'object' && result.refused === 'too_many_failures') {
      if (!this.#isEnabled(result.stream))
        this.#core.violate('requested', `${id}: ${result.stream} is disabled, and has a limit`);
    }
    if (result === 'accepted') work.reopenBelow = below;
  }

  /** Notes what a step has opened again. Returns the stream of it. */
  #reopen(work: Work, below: number, result: StepResult): SimulatedStream | undefined {
    let worked: SimulatedStream | undefined;
    for (const [stream, row] of this.#closedOf(work)) {
      if (!this.#isOpened(stream, row)) continue;
      const { eventId, offset = 0 } = row;
      if (this.#endOf(stream, eventId) === 'delivered')
        this.#core.violate('requested', `${eventId} of ${stream.label} was sent and is reopened`);
      // It does not hold others of its key back.
      stream.counts.rows.set(eventId, { ...row, orderKey: undefined });
      stream.dismissedAt.delete(offset);
      work.streams.get(stream.id)?.set(eventId, 'reopened');
      work.closed.get(stream.id)?.delete(eventId);
      worked = stream;
    }
    const isFull = ({ id, counts }: SimulatedStream): boolean =>
      this.#isEnabled(id) && model.healthOf(counts).total + 1 >= below;
    for (const [stream, { eventId, offset = 0 }] of this.#closedOf(work)) {
      const isKept = stream.log.model.log.some((event) => event.offset === offset);
      const mayOpen = isKept && !stream.counts.rows.has(eventId) && !isFull(stream);
      if (result === 'done' && mayOpen && this.#endOf(stream, eventId) === 'dismissed')
        this.#core.violate('requested', `${eventId} of ${stream.label} stays dismissed`);
      if (!mayOpen) work.closed.get(stream.id)?.delete(eventId);
    }
    if (result === 'done') {
      work.closed.clear();
      work.reopenBelow = undefined;
    }
    if (worked !== undefined) this.#tables.check(worked);
    return worked;
  }

  /** Whether a stream may have a limit of open failures. */
  #isEnabled(id: string): boolean {
    const row = this.#core.deps.sharedStore.db.get<{ status: string }>`
      select status from streams where id = ${id}`;
    return row?.status === 'enabled';
  }

  #closedOf({ closed }: Work): (readonly [SimulatedStream, model.ModelRow])[] {
    return [...closed].flatMap(([id, rows]) => {
      const stream = this.#core.streams.get(id);
      if (stream === undefined || stream.isDeleted) return [];
      return [...rows.values()].map((row) => [stream, row] as const);
    });
  }

  /** Whether a failure that the model has as closed has its row again, as it was. */
  #isOpened(stream: SimulatedStream, { eventId, failedAt }: model.ModelRow): boolean {
    if (stream.counts.rows.has(eventId)) return false;
    const row = this.#core.deps.sharedStore.db.get<{ state: string; at: number }>`
      select state, failed_at as at from deliveries
      where tenant = ${stream.log.tenant} and stream = ${stream.id} and event_id = ${eventId}`;
    return row?.state === 'failed' && row.at === failedAt;
  }

  /** Returns the ids of dismissals, oldest first. */
  dismissals(tenant: number): string[] {
    return [...this.#works.values()]
      .filter(({ kind, request }) => kind === 'dismissals' && request.tenant === tenant)
      .map(({ request }) => request.id);
  }

  /** Returns whether this failure is open because it was opened again. */
  isReopened({ id }: SimulatedStream, eventId: string): boolean {
    return [...this.#works.values(), ...this.#removed].some(
      ({ streams }) => streams.get(id)?.get(eventId) === 'reopened',
    );
  }

  /** Returns the open failures of a stream that match, oldest first, after those that were read. */
  #matching({ request, failedTo, after }: Work, stream: SimulatedStream): model.ModelRow[] {
    const { types, eventIds, codes } = request.selection;
    return model
      .openRows(stream.counts)
      .filter(({ failedAt = 0 }) => failedAt < failedTo)
      .filter(
        ({ failedAt = 0, eventId }) =>
          after === undefined ||
          failedAt > after.failedAt ||
          (failedAt === after.failedAt && eventId > after.eventId),
      )
      .filter(({ eventId, offset }) => {
        const type = offset === undefined ? testType : stream.log.event(offset)?.type;
        return (
          eventIds?.includes(eventId) !== false &&
          types?.includes(type ?? '') !== false &&
          (codes === undefined || isOfCodes(this.#codeOf(stream, eventId), codes))
        );
      })
      .toSorted(
        (one, other) =>
          (one.failedAt ?? 0) - (other.failedAt ?? 0) || (one.eventId < other.eventId ? -1 : 1),
      );
  }

  #codeOf({ id, log: { tenant } }: SimulatedStream, eventId: string): ErrorCode {
    const row = this.#core.deps.sharedStore.db.get<{ code: ErrorCode }>`
      select error_code as code from deliveries
      where tenant = ${tenant} and stream = ${id} and event_id = ${eventId}`;
    return row?.code ?? ('' as ErrorCode);
  }

  /** Notes the ends of cycles; what ends twice in a command counts with its first end. */
  #note(stream: SimulatedStream): void {
    for (const work of this.#works.values()) {
      const fates = work.streams.get(stream.id);
      if (fates === undefined) continue;
      for (const [eventId, fate] of fates) {
        const row = stream.counts.rows.get(eventId);
        if (fate !== 'begun') continue;
        if (row === undefined) fates.set(eventId, 'delivered');
        else if (row.state === 'failed') fates.set(eventId, 'failed');
      }
    }
  }

  #check(stream: SimulatedStream): void {
    for (const work of this.#works.values()) {
      const fates = work.streams.get(stream.id);
      if (fates !== undefined) this.#checkWork(work, stream.id, fates);
    }
  }

  /** Notes that a stream is deleted: what is left of it counts as skipped. */
  deleted({ id }: SimulatedStream): void {
    for (const work of this.#works.values()) {
      const fates = work.streams.get(id);
      if (fates === undefined) continue;
      for (const [eventId, fate] of fates)
        if (fate === 'unread' || fate === 'begun') fates.set(eventId, 'skipped');
      this.#checkWork(work, id, fates);
    }
  }

  /** Checks that only old requests without work were removed. */
  pruned(): void {
    for (const [id, removed] of this.#works) {
      const { work, acceptedAt, request } = removed;
      const row = this.#core.deps.sharedStore.db.get`
        select id from redeliveries where tenant = ${request.tenant} and id = ${id}
        union all
        select id from dismissals where tenant = ${request.tenant} and id = ${id}`;
      if (row !== undefined) continue;
      if (work !== 'none' || this.#core.deps.now() - acceptedAt < keptMs)
        this.#core.violate('lost', `${id} was removed`);
      this.#works.delete(id);
      this.#removed = [...this.#removed, removed];
    }
  }

  #checkAll(work: Work): void {
    for (const [stream, fates] of work.streams) this.#checkWork(work, stream, fates);
    const listed = this.#core.deps.sharedStore.db.get<{ count: number }>`
      select count(*) as count from (
        select stream from redelivery_streams where id = ${work.request.id}
        union all
        select stream from dismissal_streams where id = ${work.request.id})`;
    if (listed?.count !== work.streams.size)
      this.#core.violate('counters', `${work.request.id} has ${listed?.count} streams`);
  }

  #checkWork(
    { kind, request: { id }, swapped }: Work,
    stream: string,
    fates: ReadonlyMap<string, Fate>,
  ): void {
    const { db } = this.#core.deps.sharedStore;
    const row =
      kind === 'redeliveries'
        ? db.get<Record<string, number>>`
            select total, unread, delivered, failed, skipped, 0 as dismissed, 0 as reopened
            from redelivery_streams
            where id = ${id} and stream = ${stream}`
        : db.get<Record<string, number>>`
            select total, unread, 0 as delivered, 0 as failed, skipped,
              dismissed - reopened as dismissed, reopened
            from dismissal_streams where id = ${id} and stream = ${stream}`;
    const fate = [...fates.values()];
    const count = (wanted: Fate): number => fate.filter((one) => one === wanted).length;
    const counted = (
      ['unread', 'delivered', 'failed', 'skipped', 'dismissed', 'reopened'] as const
    ).map((name) => [name, count(name)] as const);
    const less = swapped.get(stream) ?? 0;
    const expected: Record<string, number> = {
      total: fates.size - less,
      ...Object.fromEntries(counted),
    };
    // The others were not found yet, or were skipped at the end.
    const place = count('unread') > 0 ? 'unread' : 'skipped';
    expected[place] = (expected[place] ?? 0) - less;
    for (const [name, value] of Object.entries(expected)) {
      const found = row?.[name];
      if (found !== value)
        this.#core.violate('counters', `${name} of ${id}, ${stream} is ${found}, not ${value}`);
    }
  }

  /** Returns whether a redelivery of this failure was cancelled before it had begun. */
  isReturned({ id }: SimulatedStream, eventId: string): boolean {
    return [...this.#works.values(), ...this.#removed].some(
      ({ isCancelled, streams }) => isCancelled && streams.get(id)?.get(eventId) === 'skipped',
    );
  }

  /** Returns the ids of redeliveries that may be cancelled, oldest first. */
  redeliveries(tenant: number): string[] {
    return [...this.#works.values()]
      .filter(({ kind, request }) => kind === 'redeliveries' && request.tenant === tenant)
      .map(({ request }) => request.id);
  }

  /** Returns what the requests are that have work left, or failures whose cycle goes on. */
  running(): string[] {
    return [...this.#works.values()]
      .filter(
        ({ work, streams, reopenBelow }) =>
          work !== 'none' ||
          reopenBelow !== undefined ||
          [...streams.values()].some((fates) => [...fates.values()].includes('begun')),
      )
      .map(({ request }) => `${request.id} is running`);
  }
}

/** The type of all test events. */
const testType = 'a.made';

/** Counts failures that were not part of the request when it was accepted. */
function countUnknown(fates: ReadonlyMap<string, Fate>, rows: readonly model.ModelRow[]): number {
  return rows.filter(({ eventId }) => !fates.has(eventId)).length;
}

/** Notes how many of the failures that match only now took the places of others. */
function noteSwapped(
  { swapped }: Work,
  stream: string,
  fates: ReadonlyMap<string, Fate>,
  late: number,
): void {
  const unread = [...fates.values()].filter((fate) => fate === 'unread').length;
  swapped.set(stream, Math.min((swapped.get(stream) ?? 0) + late, unread));
}

/** Returns what has not begun to the failures. */
function giveBack({ counts }: SimulatedStream, fates: Map<string, Fate>): void {
  for (const [eventId, fate] of fates) {
    const row = counts.rows.get(eventId);
    if (fate !== 'begun' || row?.state !== 'retrying' || row.attempt !== 1) continue;
    Object.assign(row, { state: 'failed', dueAt: undefined });
    fates.set(eventId, 'skipped');
  }
}
