import assert from 'node:assert/strict';
import type { Clock } from '../core/clock.ts';
import { streamKeyOf } from '../core/stream-key.ts';
import type { LogStore } from '../store/port/log.ts';
import type { OwnedStream, OwnershipStore } from '../store/port/ownership.ts';
import type { Node, StreamRef } from '../core/types.ts';
import type { SerialQueue } from '../core/serial-queue.ts';
import type { Backoffs } from './backoffs.ts';
import { ClaimSweep } from './prefetch/claim-sweep.ts';
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

/** Streams in one command to the store. */
const chunk = 256;

/** Which streams this node works for, and how they are now. */
export interface Ownership {
  readonly runners: ReadonlyMap<string, Runner>;
  readonly tails: ReadonlyMap<number, Tail<Runner>>;
  /** Whether several tenants have streams here, or may have once all are claimed. */
  readonly isShared: boolean;
  /** Whether streams are being claimed, read again or given up. */
  readonly isBusy: boolean;
  /** Claims streams that are free. */
  claim(): void;
  /**
   * Events of a tenant were published, none of whose streams is here. While very many streams are
   * being claimed, those of the tenant come next.
   */
  refreshTails(tenant: number): void;
  /** A stream was created, changed or deleted, or got rows: nothing of it begins until it is read. */
  changed(ref: StreamRef): void;
  /** The same for what the store has not seen this node read again. */
  refreshMissed(refs: readonly StreamRef[]): void;
  /** Reads a runner's stream again. */
  refresh(runner: Runner): void;
  /** The runner's stream is not this node's any more; what is under way is cut off. */
  drop(runner: Runner): void;
  /**
   * Gives a disabled stream up once it has nothing left to send. Rows of it that cannot be claimed,
   * as their attempts were lost, become failures when it is claimed again.
   */
  releaseIfIdle(runner: Runner): void;
  /** Hands streams that are more than the node's share to others, once nothing is under way. */
  rebalance(): void;
  /** Reads every stream again: others may have taken some. */
  refreshAll(): void;
  /** Writes the cursors of runners that passed events without a match. */
  raise(runners: readonly Runner[]): Promise<void>;
  /** Gives every stream up, with its cursor. */
  releaseAll(): Promise<void>;
  /** Claims no stream any more. */
  close(): void;
}

export interface OwnershipDeps {
  readonly ownership: OwnershipStore;
  readonly log: Pick<LogStore, 'heads'>;
  readonly node: Node;
  readonly clock: Clock;
  readonly serialQueue: SerialQueue;
  readonly storeRetry: StoreRetry;
  readonly lease: Pick<Lease, 'share' | 'term'>;
  readonly settings: Pick<
    DeliverySettings,
    'tailEventsMax' | 'tailBytesMax' | 'attemptTimeoutMs' | 'leaseGraceMs' | 'retryDelaysMs'
  >;
  readonly prefetch: Pick<Prefetch, 'fill' | 'empty'>;
  readonly due: Pick<DueTimer, 'note' | 'forget'>;
  readonly backoffs: Pick<Backoffs, 'end'>;
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

/** What asks the store here has the lane: no result is on its way there meanwhile. */
class StreamOwnership implements Ownership {
  readonly runners = new Map<string, Runner>();
  readonly tails = new Map<number, Tail<Runner>>();
  readonly #deps: OwnershipDeps;
  /** How many runners each tenant has. */
  readonly #tenants = new Map<number, number>();
  /** Tenants whose last runner has left. */
  readonly #left = new Set<number>();
  readonly #stale = new Set<Runner>();
  /** Announced while streams were claimed: the answer may be older than that. */
  readonly #announced = new Set<string>();
  #atWork = 0;
  #claimIsPlanned = false;
  readonly #sweep = new ClaimSweep();
  /** Number of the last claim of this incarnation of the node. */
  #dueClaims = 0;
  #refreshIsPlanned = false;
  #isClosed = false;

  constructor(deps: OwnershipDeps) {
    this.#deps = deps;
  }

  get isShared(): boolean {
    return this.#tenants.size > 1 || this.#claimIsPlanned || this.#sweep.isUnderWay;
  }

  get isBusy(): boolean {
    return this.#atWork > 0;
  }

  claim(): void {
    this.#sweep.again();
    this.#planClaim();
  }

  #planClaim(): void {
    if (this.#claimIsPlanned || this.#isClosed) return;
    this.#claimIsPlanned = true;
    void this.#inOrder(() => this.#claimSome());
  }

  refreshTails(tenant: number): void {
    this.#sweep.appended(tenant);
  }

  changed({ tenant, stream }: StreamRef): void {
    const key = streamKeyOf({ tenant, stream });
    const runner = this.runners.get(key);
    if (runner !== undefined) return this.refresh(runner);
    this.#announced.add(key);
    this.refreshTails(tenant);
    this.claim();
  }

  refreshMissed(refs: readonly StreamRef[]): void {
    for (const ref of refs) {
      const runner = this.runners.get(streamKeyOf(ref));
      // What is stale is being read; a further announcement would make the answer out of date.
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

  releaseIfIdle(runner: Runner): void {
    if (isDone(runner)) void this.#inOrder(() => this.#giveUp(runner));
  }

  rebalance(): void {
    const { share } = this.#deps.lease;
    if (this.runners.size <= share) return;
    const staying = [...this.runners.values()].filter(({ leaving }) => !leaving);
    // The last ones claimed leave first: least of them is in memory.
    for (const runner of staying.slice(share)) {
      runner.leaving = true;
      this.releaseIfIdle(runner);
    }
  }

  refreshAll(): void {
    for (const runner of this.runners.values()) this.refresh(runner);
  }

  async raise(runners: readonly Runner[]): Promise<void> {
    await this.#inOrder(async () => {
      const present = runners.filter(({ state }) => state !== 'gone');
      const cursors = present.map((runner) => runner.cursorUpdate());
      const { ownership, storeRetry } = this.#deps;
      const raised = await storeRetry.run(() => ownership.raiseCursors(cursors));
      present.forEach(({ window }, index) => {
        window.commit(Math.min(cursors[index]?.cursor ?? 0, raised[index] ?? 0));
      });
    });
  }

  async releaseAll(): Promise<void> {
    await this.#inOrder(async () => {
      const all = [...this.runners.values()];
      for (const runner of all) this.#forget(runner);
      for (let index = 0; index < all.length; index += chunk) {
        await this.#release(all.slice(index, index + chunk));
      }
      const { ownership, node, storeRetry } = this.#deps;
      await storeRetry.run(() => ownership.leave(node));
    });
  }

  close(): void {
    this.#isClosed = true;
  }

  async #inOrder(work: () => Promise<void>): Promise<void> {
    this.#atWork += 1;
    await this.#deps.serialQueue(work);
    this.#atWork -= 1;
    this.#deps.scheduler.dispatch();
  }

  // Claiming

  async #claimSome(): Promise<void> {
    const { ownership, node, clock, storeRetry, lease, settings } = this.#deps;
    this.#claimIsPlanned = false;
    this.#announced.clear();
    this.#closeTails();
    const take = Math.min(chunk, lease.share - this.runners.size);
    if (this.#isClosed || take <= 0) return this.#sweep.end();
    this.#dueClaims += 1;
    const among = this.#sweep.next();
    const ask = { claim: this.#dueClaims, take, longestWaitMs: longestWaitMs(settings), among };
    const { term } = lease;
    const claimed = await storeRetry.run(() => ownership.claim(node, ask));
    await this.#openTails(claimed);
    for (const owned of claimed) this.#adopt(owned, term);
    const streams = claimed.map(({ stream }) => stream);
    if (!this.#sweep.claimed(among, streams, claimed.length === take)) return;
    await yieldToEventLoop(clock);
    this.#planClaim();
  }

  /** `term` is that of the lease when the stream was claimed. */
  #adopt(owned: OwnedStream, term: number): void {
    const { tenant, id: stream } = owned.stream;
    const tail = this.tails.get(tenant);
    assert(tail !== undefined, 'the tail of a tenant is opened before its first stream');
    const key = streamKeyOf({ tenant, stream });
    const former = this.runners.get(key);
    if (former !== undefined) this.drop(former);
    const runner = new Runner(owned, tail);
    this.runners.set(key, runner);
    this.#tenants.set(tenant, (this.#tenants.get(tenant) ?? 0) + 1);
    this.#deps.report({ kind: 'stream_owned', tenant, stream, cursor: owned.cursor });
    // Changed, or taken by others, since it was claimed.
    const isOld = this.#announced.has(key) || this.#deps.lease.term !== term;
    if (isOld) return this.refresh(runner);
    this.#wake(runner, owned);
    this.releaseIfIdle(runner);
  }

  /** A new one hears of events before the head is asked for, so that none is missed. */
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

  /** With the lane, as another claim may be about to use a tail that it has opened. */
  #closeTails(): void {
    for (const tenant of this.#left) if (!this.#tenants.has(tenant)) this.tails.delete(tenant);
    this.#left.clear();
  }

  #wake(runner: Runner, { nextDueInMs }: OwnedStream): void {
    const { due, dueClaims, prefetch, replays, scheduler } = this.#deps;
    runner.state = 'active';
    due.note(runner, nextDueInMs);
    dueClaims.resume(runner);
    prefetch.fill(runner);
    scheduler.enqueue(runner);
    replays.enqueue(runner);
  }

  // Looking again

  #planRefresh(): void {
    if (this.#refreshIsPlanned) return;
    this.#refreshIsPlanned = true;
    void this.#inOrder(() => this.#refreshSome());
  }

  async #refreshSome(): Promise<void> {
    const { ownership, node, clock, storeRetry, settings } = this.#deps;
    const rule = { longestWaitMs: longestWaitMs(settings) };
    this.#refreshIsPlanned = false;
    const some = [...this.#stale].slice(0, chunk);
    const changes = some.map((runner) => runner.changes);
    for (const runner of some) this.#stale.delete(runner);
    const refs = some.map(({ tenant, id }) => ({ tenant, stream: id }));
    const answers = await storeRetry.run(() => ownership.owned(node, refs, rule));
    const found = new Map(answers.map((owned) => [keyOfOwned(owned), owned]));
    some.forEach((runner, index) => {
      // Announced again meanwhile: the answer may be older than that.
      if (runner.changes === changes[index])
        this.#refreshOwned(runner, found.get(keyOfRunner(runner)));
    });
    if (this.#stale.size === 0) return;
    await yieldToEventLoop(clock);
    this.#planRefresh();
  }

  #refreshOwned(runner: Runner, owned: OwnedStream | undefined): void {
    if (owned === undefined || owned.epoch !== runner.epoch) {
      this.drop(runner);
      this.claim();
      return;
    }
    if (owned.stream.version !== runner.stream.version) {
      this.#deps.prefetch.empty(runner);
      // It may have another receiver.
      this.#deps.backoffs.end(runner);
      if (runner.scannedWithStaleFilter(owned)) return this.#restart(runner, owned);
    }
    runner.update(owned);
    this.#wake(runner, owned);
    this.releaseIfIdle(runner);
  }

  /** Heard of a change too late: back to the cursor, which the store kept before the change. */
  #restart(runner: Runner, owned: OwnedStream): void {
    this.drop(runner);
    this.#adopt(owned, this.#deps.lease.term);
  }

  // Leaving

  #forget(runner: Runner): void {
    const { prefetch, due, backoffs, dueClaims, report } = this.#deps;
    runner.state = 'gone';
    runner.changes += 1;
    runner.unfollow();
    if (this.runners.delete(keyOfRunner(runner))) this.#leave(runner.tenant);
    this.#stale.delete(runner);
    prefetch.empty(runner);
    due.forget(runner);
    backoffs.end(runner);
    dueClaims.resume(runner);
    report({ kind: 'stream_lost', tenant: runner.tenant, stream: runner.id });
  }

  #leave(tenant: number): void {
    const left = (this.#tenants.get(tenant) ?? 0) - 1;
    if (left > 0) this.#tenants.set(tenant, left);
    else if (this.#tenants.delete(tenant)) this.#left.add(tenant);
  }

  async #giveUp(runner: Runner): Promise<void> {
    if (!isDone(runner)) return;
    this.#forget(runner);
    await this.#release([runner]);
    // A redelivery may have come just before.
    this.claim();
  }

  async #release(runners: readonly Runner[]): Promise<void> {
    const { ownership, node, storeRetry } = this.#deps;
    const cursors = runners.map((runner) => runner.cursorUpdate());
    await storeRetry.run(() => ownership.release(node, cursors));
  }
}

/** Nothing of it is under way or to be recorded, and this node has nothing left to send of it. */
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

/** Others of the process have their turn: an engine may be synchronous. */
function yieldToEventLoop(clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.after(0, resolve);
  });
}

const keyOfRunner = ({ tenant, id }: Runner): string => streamKeyOf({ tenant, stream: id });
const keyOfOwned = ({ stream: { tenant, id } }: OwnedStream): string =>
  streamKeyOf({ tenant, stream: id });
