import type { Oracle } from './oracle.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { NameServerBehaviour } from './names.ts';
import type { ReceiverBehaviour, Plan, FaultRates } from './plan.ts';
import type { SharedStore } from './shared-store.ts';
import type { UpkeepLease } from './upkeep.ts';
import type { Timeline } from './timeline.ts';

/** The state that the processes of one history share. */
export interface Simulation {
  readonly plan: Plan;
  readonly timeline: Timeline;
  readonly sharedStore: SharedStore;
  readonly oracle: Oracle;
  readonly upkeepLease: UpkeepLease;
  /** Returns the time of the store. */
  now(): number;
  /** Returns how much longer a wait may take because the store's clock was set. */
  clockDelayMs(waitMs: number): number;
  /** The current rates: zero once faults have stopped. */
  faultRates(): FaultRates;
  isStoreDown(): boolean;
  behaviourOf(stream: SimulatedStream): ReceiverBehaviour;
  nameServerBehaviourOf(stream: SimulatedStream): NameServerBehaviour;
  /** Sets how every receiver responds while there are no faults; `healthy` at first. */
  setDefaultBehaviour(behaviour: ReceiverBehaviour): void;
  /** Makes receivers hang, or the servers of their names, whatever their behaviour is. */
  setHanging(hangs: (stream: SimulatedStream) => boolean, what?: 'receiver' | 'name'): void;
  /** Notes a fault, whose consequences take a while; see `deadlines.ts`. */
  noteFault(): void;
  /** Notes a slow command, or a slow or lost hint. */
  noteDelay(): void;
  /** Notes a request to an unhealthy receiver. */
  noteUnhealthy(stream: SimulatedStream): void;
  /** Adds a line to the history, if it is recorded. */
  note(who: string, what: string): void;
  /** Returns a short name for an id: `e12`, `s1`. */
  label(id: string): string;
}

/** One line of a history. */
export interface Entry {
  readonly atMs: number;
  readonly who: string;
  readonly what: string;
}

export const noFaults: FaultRates = {
  slow: 0,
  slowMs: 0,
  slowPages: 0,
  refused: 0,
  resultsLost: 0,
  hintsLost: 0,
  hintsRepeated: 0,
  hintsLate: 0,
  unstorable: 0,
};

export const labelOf = (id: string): string =>
  id.replace(/^e(v|s)t_0*(\d+)$/, (_, kind, number) => `${kind === 'v' ? 'e' : 's'}${number}`);
