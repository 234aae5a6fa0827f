import type { Clock, Timer } from '../core/clock.ts';
import type { Backlog } from './backlog.ts';
import type { Store } from '../store/port.ts';
import { createPatience } from './patience.ts';
import type { DeliveryReport } from './report.ts';
import type { DeliverySettings } from './settings.ts';
import type { Transport } from './transport.ts';
import { createWorkshop, type Workshop } from './workshop.ts';

/** Delivers events of the log to webhooks, on one node. */
export interface Dispatcher {
  /**
   * Owns streams and works for them until `signal` aborts; then lets attempts under way end,
   * records them and gives its streams up. Resolves in the end, whatever the store does meanwhile.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Ends at once, as a crash does: attempts are cut off and nothing is recorded any more. */
  kill(): void;
  state(): DispatcherState;
  /** What is before each enabled stream that this node works for. */
  backlogs(): readonly Backlog[];
  /** Resolves when there is nothing to do now; what is due later does not count. */
  idle(): Promise<void>;
}

/** How a dispatcher stands, for `/readyz` and metrics. */
export interface DispatcherState {
  /** Streams that this node works for. */
  readonly streams: number;
  readonly inFlight: number;
  /** Results that are not in the store yet. */
  readonly unsettled: number;
  /** Streams that have something to send and wait for a slot of the node. */
  readonly waiting: number;
  /** Streams that do not stand at the head of their log. */
  readonly behind: number;
  /** Characters of bodies that wait in memory to be sent. */
  readonly queuedBytes: number;
  /** Characters of bodies in memory because their events are the newest of their logs. */
  readonly tailBytes: number;
  /** The store has failed and what failed is being repeated. */
  readonly storeFails: boolean;
}

export interface DispatcherDeps {
  readonly store: Pick<Store, 'log' | 'deliveries' | 'replays' | 'ownership' | 'watch'>;
  readonly transport: Pick<Transport, 'post'>;
  readonly clock: Clock;
  readonly settings: DeliverySettings;
  readonly report: (event: DeliveryReport) => void;
  /** Tells nodes on one store apart; a former process of the same name counts as ended. */
  readonly nodeId?: string | undefined;
}

const nothing: DispatcherState = {
  streams: 0,
  inFlight: 0,
  unsettled: 0,
  waiting: 0,
  behind: 0,
  queuedBytes: 0,
  tailBytes: 0,
  storeFails: false,
};

/** See {@link Dispatcher}; `run` it once. */
export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const { clock, store, settings } = deps;
  const opened = Promise.withResolvers<void>();
  const killed = Promise.withResolvers<void>();
  let workshop: Workshop | undefined;
  const patience = createPatience({
    clock,
    report: deps.report,
    recovered: () => workshop?.recovered(),
  });

  const join = async (): Promise<Workshop> => {
    const nodeId = deps.nodeId ?? 'leat';
    const node = await patience.keepTrying(() => store.ownership.join(nodeId, settings.leaseMs));
    return createWorkshop({ ...deps, node, patience });
  };
  const work = async (signal: AbortSignal): Promise<void> => {
    workshop = await join();
    if (!signal.aborted) workshop.open();
    opened.resolve();
    await aborted(signal);
    await workshop.drain();
  };
  /** Longer than attempts and their settling take: it is over only for a store that is away. */
  const drainMsMax = settings.attemptTimeoutMs + settings.leaseGraceMs;

  return {
    run: async (signal) => {
      const tooLate = Promise.withResolvers<void>();
      let timer: Timer | undefined;
      const bound = (): void => {
        timer = clock.after(drainMsMax, tooLate.resolve);
      };
      signal.addEventListener('abort', bound);
      if (signal.aborted) bound();
      await Promise.race([work(signal), tooLate.promise, killed.promise]);
      signal.removeEventListener('abort', bound);
      timer?.cancel();
      workshop?.close();
      patience.close();
    },
    kill: () => {
      workshop?.close();
      workshop?.cutOff();
      patience.close();
      killed.resolve();
    },
    state: () => workshop?.state() ?? nothing,
    backlogs: () => workshop?.backlogs() ?? [],
    idle: async () => {
      await Promise.race([opened.promise, killed.promise]);
      await Promise.race([workshop?.idle(), killed.promise]);
    },
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
