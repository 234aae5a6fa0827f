import type { DeliveryKind, DeliveryOptions, Selection, Stream } from '../../src/core/types.ts';
import { selectionNow } from '../../src/core/subscription.ts';
import type { ModelStream } from '../store/contract/model.ts';
import type { TenantLog } from './tenant-log.ts';
import { labelOf } from './simulation.ts';

/** The expected state of a stream: the requests of operators, and the attempts and results of Leat. */
export interface SimulatedStream {
  /** Short name: `s12`. */
  readonly label: string;
  readonly id: string;
  /** The log of its tenant. */
  readonly log: TenantLog;
  readonly counts: ModelStream;
  /** Subscribed types that its filter selects, after each offset, oldest first. */
  readonly spans: { readonly after: number; readonly types: readonly string[] }[];
  /** The types and the filter of now. */
  selection: Selection;
  readonly delivery: DeliveryOptions;
  /** Of streams with a rate, by process: when the bucket of its runner is full, and for which ownership. */
  readonly rates: Map<string, { readonly takeovers: number; readonly fullAtMs: number }>;
  endpoint: string;
  readonly tokens: Set<string>;
  owner: { readonly process: string; readonly epoch: number } | undefined;
  /** Ids of events recorded as delivered. */
  readonly recorded: Set<string>;
  /** When the attempt began that delivered an event, by its offset, or by its id for a test. */
  readonly deliveredAt: Map<number | string, number>;
  /** When failures were dismissed, by the offset of the event, or by its id for a test. */
  readonly dismissedAt: Map<number | string, number>;
  /** Ids of events that a receiver has accepted. */
  readonly accepted: Set<string>;
  /** Offsets that `latest` skipped, or that were pruned while the stream was disabled. */
  readonly skipped: Set<number>;
  /** How often each event was redelivered or replayed. */
  readonly cycles: Map<string, number>;
  /** How often a node became its owner. */
  takeovers: number;
  /** Attempts begun, by event, cycle and attempt: the value of `takeovers` at each. */
  readonly begun: Map<string, number[]>;
  /** Deliveries that were made due for a trial: how long they had yet to wait, and when that would have been over. */
  readonly trials: Map<string, { readonly waitMs: number; readonly dueMs: number }>;
  /** Ids of accepted test events. */
  readonly tests: Set<string>;
  /** After a limit disabled it: its version then, and how many events of the log have been recorded since. */
  disabledAtLimit: { readonly version: number; readonly events: number } | undefined;
  /** The kind of each row when it was claimed. */
  readonly handedOut: Map<string, DeliveryKind>;
  /** Attempts under way, by process. */
  readonly open: Map<string, number>;
  /** The last version that an operator knows to be in force. */
  knownVersion: number;
  /** The head of the log when an operator got to know it. */
  knownAt: number;
  /** Its deletion was requested; no other request follows. */
  isBeingDeleted: boolean;
  isDeleted: boolean;
}

/** Returns the state of a new stream with these types that begins at its cursor. */
export function newSimulatedStream(
  created: Stream,
  types: readonly string[],
  { counts, log, retry }: Pick<SimulatedStream, 'counts' | 'log'> & Pick<DeliveryOptions, 'retry'>,
): SimulatedStream {
  return {
    label: labelOf(created.id),
    id: created.id,
    log,
    counts,
    spans: [{ after: counts.cursor, types }],
    selection: selectionNow(created.subscriptions),
    delivery: { retry, ...created.delivery },
    rates: new Map(),
    endpoint: created.destination.endpoint,
    tokens: new Set([tokenOf(created)]),
    owner: undefined,
    recorded: new Set(),
    deliveredAt: new Map(),
    dismissedAt: new Map(),
    accepted: new Set(),
    skipped: new Set(),
    cycles: new Map(),
    takeovers: 0,
    begun: new Map(),
    trials: new Map(),
    tests: new Set(),
    disabledAtLimit: undefined,
    handedOut: new Map(),
    open: new Map(),
    knownVersion: 0,
    knownAt: 0,
    isBeingDeleted: false,
    isDeleted: false,
  };
}

/** Returns a filter for events of these types. */
export function filterFor(types: readonly string[]): string {
  return JSON.stringify({ type: { $in: types } });
}

/** Returns the types of a selection whose filter, if any, is one of {@link filterFor}. */
export function selectedTypes({ types, filter }: Selection): readonly string[] {
  if (filter === undefined) return types;
  const selected = (JSON.parse(filter) as { readonly type: { readonly $in: readonly string[] } })
    .type.$in;
  return types.filter((type) => selected.includes(type));
}

/** Returns the secret in its requests. */
export function tokenOf({ destination }: Stream): string {
  const { authorization } = destination;
  return authorization.method === 'bearer' ? authorization.token : 'none';
}
