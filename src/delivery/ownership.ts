import assert from 'node:assert/strict';
import type { Clock } from '../core/clock.ts';
import { Counts } from '../core/counts.ts';
import { sleep } from '../core/sleep.ts';
import { streamKeyOf } from '../core/stream-key.ts';
import type { LogStore } from '../store/port/log.ts';
import type {
  CursorRaise,
  KnownStream,
  OwnedStream,
  OwnershipStore,
} from '../store/port/ownership.ts';
import type { Node, StreamRef } from '../core/types.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import { withRetry } from '../core/retry-schedule.ts';
import { AbandonedStreams } from './abandoned-streams.ts';
import type { Backoffs } from './backoffs.ts';
import { claimStreams } from './claim-streams.ts';
import { runForEach, runOne } from './culprits.ts';
import { ClaimSweep } from './prefetch/claim-sweep.ts';
import type { Outages } from './outages.ts';
import type { DueClaims } from './prefetch/due-claims.ts';
import type { DueTimer } from './prefetch/due-timer.ts';
import type { Prefetch } from './prefetch/prefetch.ts';
import type { Lease } from './lease.ts';
import type { StoreRetry } from './store-retry.ts';
import type { DeliveryReport } from './report.ts';
import type { Replays } from './replays.ts';
import type { Scheduler } from './scheduler.ts';
import { Runner } from './runner.ts';
import type { Sender } from './sender.ts';
import { type DeliverySettings, longestWaitMs } from './settings.ts';
import { Tail } from '../log/tail.ts';

/** Streams in one command to the store: SQLite takes up to 0.2 ms for each, and the event loop waits. */
const batchSize = 64;

/** The streams that this node owns, and their present state. */
export interface Ownership {
  readonly runners: ReadonlyMap<string, Runner>;
  readonly tails: ReadonlyMap<number, Tail<Runner>>;
  /** Whether several tenants have streams on this node, or may have once all are claimed. */
  readonly isShared: boolean;
  /** Whether streams are being claimed, refreshed or released. */
  readonly isBusy: boolean;
  /** Claims streams that are free. */
  claim(): void;
  /**
   * Claims the streams of a tenant next while very many streams are being claimed: events were
   * published for it, and this node owns none of its streams.
   */
  claimNext(tenant: number): void;
  /**
   * Refreshes a stream that was created, changed or deleted, or that got rows: no attempt of it
   * begins until then.
   */
  changed(ref: StreamRef): void;
  /** Refreshes streams whose last change this node has not read, as the store reports. */
  refreshMissed(refs: readonly StreamRef[]): void;
  /** Reads a runner's stream from the store; no attempt of it begins until then. */
  refresh(runner: Runner): void;
  /** Removes a runner whose stream this node does not own any more; cuts off its attempts. */
  drop(runner: Runner): void;
  /** Does the same for a while: the store refuses results of the stream, with this code. */
  abandon(runner: Runner, code: string): void;
  /** Notes that a result of the runner was recorded. */
  recorded(runner: Runner): void;
  /**
   * Releases a disabled stream once it has nothing left to send. Rows that are parked with an
   * attempt of a former owner become failures when the stream is claimed again.
   */
  releaseIfIdle(runner: Runner): void;
  /** Releases the streams that stay above the node's share, each once none of its attempts is under way. */
  rebalance(): void;
  /** Refreshes every stream: other nodes may have taken some. */
  refreshAll(): void;
  /** Writes the cursors of runners that passed events without a match. */
  raiseCursors(runners: readonly Runner[]): Promise<void>;
  /** Releases every stream, with its cursor, and leaves the store. */
  releaseAll(): Promise<void>;
  /** Stops claiming streams. */
  close(): void;
}

export interface OwnershipDeps {
  readonly ownership: OwnershipStore;
  readonly log: Pick<LogStore, 'heads'>;
  readonly node: Node;
  readonly clock: Clock;
  readonly serialQueue: SerialQueue;
  readonly storeRetry: StoreRetry;
  readonly lease: Pick<Lease, 'share' | 'term' | 'end'>;
  readonly settings: Pick<
    DeliverySettings,
    | 'tailEventsMax'
    | 'tailBytesMax'
    | 'attemptTimeoutMs'
    | 'leaseGraceMs'
    | 'retryDelaysMs'
    | 'retry'
  >;
  readonly prefetch: Pick<Prefetch, 'renew' | 'empty' | 'forget' | 'dropped'>;
  readonly dueTimer: Pick<DueTimer, 'note' | 'forget'>;
  readonly backoffs: Pick<Backoffs, 'end'>;
  readonly outages: Pick<Outages, 'read' | 'forget'>;
  readonly dueClaims: Pick<DueClaims, 'resume'>;
  readonly replays: Pick<Replays, 'enqueue'>;
  readonly sender: Pick<Sender, 'cutOff'>;
  readonly scheduler: Pick<Scheduler, 'enqueue' | 'dispatch'>;
  readonly report: (event: DeliveryReport) => void;
}

/** See {@link Ownership}. */
export function createOwnership(deps: OwnershipDeps): Ownership {
  return new StreamOwnership(deps);
}

/** Its commands run in the serial queue: no settlement is on its way to the store meanwhile. */
class StreamOwnership implements Ownership {
  readonly runners = new Map<string, Runner>();
  readonly tails = new Map<number, Tail<Runner>>();
  readonly #deps: OwnershipDeps;
  /** Runners of each tenant. */
  readonly #tenants = new Counts<number>();
  /** Tenants whose last runner has left. */
  readonly #left = new Set<number>();
  readonly #stale = new Set<Runner>();
  /** Streams announced while a claim was under way: its result may be older than the change. */
  readonly #announced = new Set<string>();
  /** Commands that are queued or under way. */
  #pending = 0;
  #claimIsPlanned = false;
  readonly #sweep = new ClaimSweep();
  /** Number of the last claim of this incarnation of the node. */
  #lastClaim = 0;
  /** Streams above the share at the last heartbeat: by the next one, each node knows that it has room for them. */
  #above = 0;
  /** Announced streams that the claims of the present sweep may take beyond the share. */
  #beyond = 0;
  #refreshIsPlanned = false;
  #isClosed = false;
  readonly #abandoned: AbandonedStreams;

  constructor(deps: OwnershipDeps) {
    this.#deps = deps;
    this.#abandoned = new AbandonedStreams(deps.clock, (cursor) => this.#takeUp(cursor));
  }

  get isShared(): boolean {
    return this.#tenants.size > 1 || this.#claimIsPlanned || this.#sweep.isUnderWay;
  }

  get isBusy(): boolean {
    return this.#pending > 0;
  }

  claim(): void {
    this.#sweep.repeat();
    this.#planClaim();
  }

  #planClaim(): void {
    if (this.#claimIsPlanned || this.#isClosed) return;
    this.#claimIsPlanned = true;
    void this.#enqueue(() => this.#claimSome());
  }

  claimNext(tenant: number): void {
    this.#sweep.appended(tenant);
  }

  changed({ tenant, stream }: StreamRef): void {
    const key = streamKeyOf({ tenant, stream });
    const runner = this.runners.get(key);
    if (runner !== undefined) return this.refresh(runner);
    this.#abandoned.takeUp(key);
    this.#announced.add(key);
    this.claimNext(tenant);
    this.claim();
  }

  refreshMissed(refs: readonly StreamRef[]): void {
    for (const ref of refs) {
      const key = streamKeyOf(ref);
      const runner = this.runners.get(key);
      if (runner === undefined) this.#abandoned.takeUp(key);
      // A stale one is being read; another announcement would make the result out of date.
      if (runner?.state === 'active') this.refresh(runner);
    }
  }

  refresh(runner: Runner): void {
    if (runner.state === 'gone') return;
    runner.state = 'stale';
    runner.changes += 1;
    runner.unfollow();
    this.#stale.add(runner);
    this.#planRefresh();
  }

  drop(runner: Runner): void {
    this.#forget(runner);
    this.#deps.sender.cutOff(runner);
  }

  abandon(runner: Runner, code: string): void {
    // What waits is sent again from the cursor of the store.
    const cursor = { ...runner.cursorUpdate(), cursor: runner.window.durable };
    this.drop(runner);
    this.#setAside(cursor, code);
  }

  recorded(runner: Runner): void {
    if (!runner.isRefused) return;
    runner.isRefused = false;
    this.#noteRefusal(runner.cursorUpdate(), undefined, () => (runner.isRefused = true));
  }

  releaseIfIdle(runner: Runner): void {
    if (isDone(runner)) void this.#enqueue(() => this.#releaseOne(runner));
  }

  rebalance(): void {
    const { share } = this.#deps.lease;
    const staying = [...this.runners.values()].filter(({ leaving }) => !leaving);
    const before = this.#above;
    this.#above = Math.max(0, staying.length - share - before);
    // The last ones claimed leave first: the least of them is in memory.
    for (const runner of staying.slice(Math.max(share, staying.length - before))) {
      runner.leaving = true;
      this.releaseIfIdle(runner);
    }
  }

  refreshAll(): void {
    for (const runner of this.runners.values()) this.refresh(runner);
  }

  async raiseCursors(runners: readonly Runner[]): Promise<void> {
    await this.#enqueue(async () => {
      const present = runners
        .filter(({ state }) => state !== 'gone')
        .map((runner) => ({ runner, cursor: runner.cursorUpdate() }));
      const { ownership } = this.#deps;
      await runForEach(this.#deps, present, {
        run: (some) => ownership.raiseCursors(some.map(({ cursor }) => cursor)),
        done: (some, raised) => {
          some.forEach(({ runner: { window }, cursor }, index) => {
            window.commit(Math.min(cursor.cursor, raised[index] ?? 0));
          });
        },
        // It stays where it is, and is raised with the next ones.
        refused: () => undefined,
      });
    });
  }

  async releaseAll(): Promise<void> {
    await this.#enqueue(async () => {
      const all = [...this.runners.values()];
      for (const runner of all) this.#forget(runner);
      for (let index = 0; index < all.length; index += batchSize) {
        const some = all.slice(index, index + batchSize);
        await this.#release(some.map((runner) => runner.lastUpdate()));
      }
      const { ownership, node, lease } = this.#deps;
      await lease.end();
      // Refused, its lease ends by itself.
      await runOne(this.#deps, node, () => ownership.leave(node));
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#abandoned.close();
  }

  #setAside(cursor: CursorRaise, code: string): void {
    this.#noteRefusal(cursor, code);
    this.#abandoned.add(cursor);
  }

  #noteRefusal(cursor: CursorRaise, code: string | undefined, failed = (): void => {}): void {
    const { ownership, node } = this.#deps;
    const run = (): Promise<void> => ownership.noteRefusal(node, cursor, code);
    void this.#enqueue(() => runForEach(this.#deps, [cursor], { run, refused: failed }));
  }

  #takeUp(cursor: CursorRaise): void {
    void this.#enqueue(async () => {
      await this.#release([cursor]);
      this.claim();
    });
  }

  /** Runs a command in the serial queue. */
  async #enqueue(command: () => Promise<void>): Promise<void> {
    this.#pending += 1;
    await this.#deps.serialQueue(command);
    this.#pending -= 1;
    this.#deps.scheduler.dispatch();
  }

  // Claiming

  async #claimSome(): Promise<void> {
    const { clock, lease, settings } = this.#deps;
    this.#claimIsPlanned = false;
    // The next heartbeat counts streams that were announced: they do not wait for it.
    this.#beyond = this.#announced.size + (this.#sweep.isUnderWay ? this.#beyond : 0);
    const room = Math.max(this.#beyond, lease.share - this.runners.size);
    const take = lease.share === 0 ? 0 : Math.min(batchSize, room);
    this.#announced.clear();
    this.#closeTails();
    if (this.#isClosed || take <= 0) return this.#sweep.end();
    this.#lastClaim += 1;
    const among = this.#sweep.next();
    const request = { claim: this.#lastClaim, take, longestWaitMs: longestWaitMs(settings), among };
    const { term } = lease;
    const claimed = await claimStreams(this.#deps, request, this.#setAside.bind(this));
    // The next poll claims again.
    if (claimed === undefined) return this.#sweep.end();
    const { taken, begun } = claimed;
    await this.#openTails(begun);
    for (const owned of begun) this.#adopt(owned, term);
    const streams = taken.map(({ stream }) => stream);
    this.#beyond = Math.max(0, this.#beyond - taken.length);
    if (!this.#sweep.claimed(among, streams, taken.length === take)) return;
    // Lets other work of the process run: an engine may be synchronous.
    await sleep(clock, 0);
    this.#planClaim();
  }

  /** Returns the stream with the schedule that it is sent by. */
  #scheduled(owned: OwnedStream): OwnedStream {
    const { stream } = owned;
    const delivery = withRetry(stream.delivery, this.#deps.settings.retry);
    return delivery === stream.delivery ? owned : { ...owned, stream: { ...stream, delivery } };
  }

  /** Creates the runner of a claimed stream; `term` is that of the lease at the claim. */
  #adopt(claimed: OwnedStream, term: number): void {
    const owned = this.#scheduled(claimed);
    const { tenant, id: stream } = owned.stream;
    const tail = this.tails.get(tenant);
    assert(tail !== undefined, 'the tail of a tenant is opened before its first stream');
    const key = streamKeyOf({ tenant, stream });
    const former = this.runners.get(key);
    if (former !== undefined) this.drop(former);
    const runner = new Runner(owned, tail);
    this.runners.set(key, runner);
    this.#tenants.add(tenant, 1);
    this.#deps.report({ kind: 'stream_owned', tenant, stream, cursor: owned.cursor });
    // Changed, or taken by another node, since it was claimed.
    if (this.#announced.has(key) || this.#deps.lease.term !== term) return this.refresh(runner);
    this.#wake(runner, owned);
    this.releaseIfIdle(runner);
  }

  /** Opens tails before it reads their heads, so that no event is missed. */
  async #openTails(claimed: readonly OwnedStream[]): Promise<void> {
    const { settings, storeRetry, log } = this.#deps;
    const tenants = [...new Set(claimed.map(({ stream }) => stream.tenant))].filter(
      (tenant) => !this.tails.has(tenant),
    );
    if (tenants.length === 0) return;
    for (const tenant of tenants) this.tails.set(tenant, new Tail<Runner>(settings, 0));
    const heads = await storeRetry.run(() => log.heads(tenants));
    for (const [index, tenant] of tenants.entries()) {
      const tail = this.tails.get(tenant);
      const head = heads[index] ?? 0;
      if (tail !== undefined && head > tail.head) tail.skipTo(head);
    }
  }

  /** Runs in the serial queue, as another claim may be about to use a tail that it has opened. */
  #closeTails(): void {
    for (const tenant of this.#left) if (this.#tenants.of(tenant) === 0) this.tails.delete(tenant);
    this.#left.clear();
  }

  #wake(runner: Runner, { nextDueInMs }: OwnedStream): void {
    const { dueTimer, outages, dueClaims, prefetch, replays, scheduler } = this.#deps;
    runner.state = 'active';
    outages.read(runner);
    dueTimer.note(runner, nextDueInMs);
    dueClaims.resume(runner);
    prefetch.renew(runner);
    scheduler.enqueue(runner);
    replays.enqueue(runner);
  }

  // Refreshing

  #planRefresh(): void {
    if (this.#refreshIsPlanned) return;
    this.#refreshIsPlanned = true;
    void this.#enqueue(() => this.#refreshSome());
  }

  async #refreshSome(): Promise<void> {
    const { ownership, node, clock, settings } = this.#deps;
    const rule = { longestWaitMs: longestWaitMs(settings) };
    this.#refreshIsPlanned = false;
    const stale = this.#stale.values().take(batchSize).toArray();
    for (const runner of stale) this.#stale.delete(runner);
    const some = stale.map((runner) => ({ runner, changes: runner.changes, ref: runner.known() }));
    await runForEach(this.#deps, some, {
      run: (each) => {
        const refs = each.map(({ ref }) => ref);
        return ownership.owned(node, refs, rule);
      },
      done: (each, owned) => {
        const byKey = new Map(owned.map((one) => [keyOfOwned(one), one]));
        for (const { runner, changes } of each)
          // Otherwise it was announced again meanwhile, and the result may be older than that.
          if (runner.changes === changes) this.#refreshed(runner, byKey.get(keyOfRunner(runner)));
      },
      refused: ({ runner, changes }, code) => {
        if (runner.changes === changes) this.abandon(runner, code);
      },
    });
    if (this.#stale.size === 0) return;
    // Lets other work of the process run: an engine may be synchronous.
    await sleep(clock, 0);
    this.#planRefresh();
  }

  #refreshed(runner: Runner, read: OwnedStream | undefined): void {
    const owned = read && this.#scheduled(read);
    if (owned === undefined || owned.epoch !== runner.epoch) {
      this.drop(runner);
      return this.claim();
    }
    if (owned.stream.version !== runner.stream.version) {
      this.#deps.prefetch.empty(runner);
      // The change may be a new endpoint.
      this.#deps.backoffs.end(runner);
      // More was taken since the store was told: that counts as well.
      if (runner.tookOthers(owned)) return this.refresh(runner);
    }
    this.#deps.prefetch.dropped(runner, runner.update(owned));
    this.#wake(runner, owned);
    this.releaseIfIdle(runner);
  }

  // Releasing

  #forget(runner: Runner): void {
    const { prefetch, dueTimer, backoffs, outages, dueClaims, report } = this.#deps;
    runner.state = 'gone';
    runner.changes += 1;
    runner.unfollow();
    const isLast =
      this.runners.delete(keyOfRunner(runner)) && this.#tenants.add(runner.tenant, -1) === 0;
    if (isLast) this.#left.add(runner.tenant);
    this.#stale.delete(runner);
    prefetch.forget(runner);
    dueTimer.forget(runner);
    backoffs.end(runner);
    outages.forget(runner);
    dueClaims.resume(runner);
    report({ kind: 'stream_lost', tenant: runner.tenant, stream: runner.id });
  }

  async #releaseOne(runner: Runner): Promise<void> {
    if (!isDone(runner)) return;
    this.#forget(runner);
    await this.#release([runner.lastUpdate()]);
    // A redelivery may have been requested just before.
    this.claim();
  }

  async #release(cursors: readonly (CursorRaise & KnownStream)[]): Promise<void> {
    const { ownership, node } = this.#deps;
    await runForEach(this.#deps, cursors, {
      run: (some) => ownership.release(node, some),
      refused: (cursor) => this.#abandoned.add(cursor),
    });
  }
}

/**
 * Returns whether the stream can be released: all its attempts are recorded, and none follows here.
 */
function isDone(runner: Runner): boolean {
  const hasNothingToSend = !runner.enabled && !runner.dueWaits && runner.nextDueMs === undefined;
  return (
    runner.state === 'active' &&
    (runner.leaving || hasNothingToSend) &&
    runner.freshInFlight === 0 &&
    runner.dueInFlight === 0 &&
    runner.unsettled === 0
  );
}

const keyOfRunner = ({ tenant, id }: Runner): string => streamKeyOf({ tenant, stream: id });
const keyOfOwned = ({ stream: { tenant, id } }: OwnedStream): string =>
  streamKeyOf({ tenant, stream: id });
