import type { Timer } from '../core/clock.ts';
import type { Backlog } from './backlog.ts';
import { createShortages, type Shortages } from './http/shortages.ts';
import { createStoreRetry, type StoreRetry } from './store-retry.ts';
import { type DispatcherDeps, type DispatcherState, Incarnation } from './incarnation.ts';

/**
 * Delivers events of the log to webhooks, on one node. When the store was replaced (by a fail-over
 * or a restore), it drops its memory of it and joins again.
 */
export interface Dispatcher {
  /**
   * Claims streams and sends their events until `signal` aborts; then waits for the attempts under
   * way, records them and releases its streams. Resolves within a bounded time, even when the store
   * does not respond.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Ends at once, as a crash does: cuts off all attempts and records nothing more. */
  kill(): void;
  state(): DispatcherState;
  /** The backlog of each enabled stream of this node, computed while it is iterated. */
  backlogs(): Iterable<Backlog>;
  /** Resolves when there is nothing to do now; rows that are due later do not count. */
  idle(): Promise<void>;
}

const nothing: DispatcherState = {
  holdsLease: false,
  streams: 0,
  inFlight: 0,
  inFlightBytes: 0,
  unsettled: 0,
  waiting: 0,
  behind: 0,
  queuedBytes: 0,
  tailBytes: 0,
  storeFails: false,
};

/** See {@link Dispatcher}; `run` it once. */
export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  return new NodeDispatcher(deps);
}

/**
 * Runs one incarnation of the node after another: each time the store was replaced, or has forgotten the
 * node, the present one ends as in a crash and the next one joins.
 */
class NodeDispatcher implements Dispatcher {
  readonly #deps: DispatcherDeps & { readonly shortages: Shortages };
  readonly #storeRetry: StoreRetry;
  readonly #killed = Promise.withResolvers<void>();
  /** Absent while the node joins. */
  #incarnation: Incarnation | undefined;
  /** Resolves when the present incarnation is open. */
  #opened = Promise.withResolvers<void>();
  /** Resolves when the present incarnation has ended because the store was replaced. */
  #replaced = Promise.withResolvers<void>();

  constructor(deps: DispatcherDeps) {
    const { shortages = createShortages(deps) } = deps;
    this.#deps = { ...deps, shortages };
    shortages.watch((change) => deps.report({ kind: 'shortage', ...change }));
    this.#storeRetry = createStoreRetry({
      clock: deps.clock,
      report: deps.report,
      recovered: () => this.#incarnation?.recovered(),
      replaced: () => this.#leaveStore(),
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, settings, store } = this.#deps;
    const tooLate = Promise.withResolvers<void>();
    let timer: Timer | undefined;
    const bound = (): void => {
      // Longer than attempts and their settling take: passes only while the store is unavailable.
      const attemptMs = this.#incarnation?.timeoutMs() ?? settings.attemptTimeoutMs;
      timer = clock.after(attemptMs + settings.leaseGraceMs, tooLate.resolve);
    };
    signal.addEventListener('abort', bound);
    if (signal.aborted) bound();
    const unwatch = store.watch(({ kind }) => kind === 'replaced' && this.#leaveStore());
    await Promise.race([this.#work(signal), tooLate.promise, this.#killed.promise]);
    unwatch();
    signal.removeEventListener('abort', bound);
    timer?.cancel();
    this.#incarnation?.close();
    this.#storeRetry.close();
  }

  kill(): void {
    this.#incarnation?.close();
    this.#incarnation?.cutOff();
    this.#storeRetry.close();
    this.#killed.resolve();
  }

  state(): DispatcherState {
    return this.#incarnation?.state() ?? nothing;
  }

  backlogs(): Iterable<Backlog> {
    return this.#incarnation?.backlogs() ?? [];
  }

  async idle(): Promise<void> {
    const killed = this.#killed.promise;
    for (;;) {
      await Promise.race([this.#opened.promise, killed]);
      const incarnation = this.#incarnation;
      await Promise.race([incarnation?.idle(), killed, this.#replaced.promise]);
      if (incarnation === this.#incarnation) return;
    }
  }

  async #work(signal: AbortSignal): Promise<void> {
    const stopped = aborted(signal);
    for (;;) {
      const incarnation = await this.#join();
      this.#incarnation = incarnation;
      if (!signal.aborted) incarnation.open();
      this.#opened.resolve();
      await Promise.race([stopped, this.#replaced.promise]);
      // Attempts under way when the store was replaced are not recorded: they are sent again.
      if (signal.aborted) return Promise.race([incarnation.drain(), this.#replaced.promise]);
    }
  }

  async #join(): Promise<Incarnation> {
    const { store, settings, report } = this.#deps;
    const nodeId = this.#deps.nodeId ?? 'leat';
    const storeRetry = this.#storeRetry;
    const join = () => store.ownership.join(nodeId, settings.leaseMs);
    const { replaced, ...node } = await storeRetry.run(join);
    if (replaced !== undefined) report({ kind: 'store_replaced', ...replaced });
    this.#replaced = Promise.withResolvers();
    const rejoin = (): void => this.#leaveStore();
    return new Incarnation({ ...this.#deps, node, storeRetry, rejoin });
  }

  /** Ends the present incarnation; it records nothing more. */
  #leaveStore(): void {
    const former = this.#incarnation;
    // Joining accepts the store as it is.
    if (former === undefined) return;
    this.#incarnation = undefined;
    this.#opened = Promise.withResolvers();
    former.close();
    former.cutOff();
    this.#storeRetry.reset();
    this.#replaced.resolve();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
