import type { DeliveryKind, Stream } from '../../src/core/types.ts';
import type { ModelStream } from '../store/contract/model.ts';
import type { TenantLog } from './tenant-log.ts';
import { labelOf } from './simulation.ts';

/** A stream as the simulation knows it: what was asked of Leat, and what Leat did. */
export interface Line {
  /** Short, for people: `s12`. */
  readonly label: string;
  readonly id: string;
  /** Of its tenant. */
  readonly log: TenantLog;
  readonly counts: ModelStream;
  /** Types wanted after an offset, oldest first. */
  readonly spans: { readonly after: number; readonly types: readonly string[] }[];
  endpoint: string;
  readonly tokens: Set<string>;
  owner: { readonly process: string; readonly epoch: number } | undefined;
  /** Ids of events recorded as delivered. */
  readonly recorded: Set<string>;
  /** When the attempt began that delivered an event, by its offset, or by its id for a test. */
  readonly deliveredAt: Map<number | string, number>;
  /** Ids of events that a receiver has accepted. */
  readonly accepted: Set<string>;
  /** Offsets that `latest` left out, or that were pruned while the stream was disabled. */
  readonly leftOut: Set<number>;
  /** How often an event's cycle was begun anew. */
  readonly cycles: Map<string, number>;
  /** How often a node began to work for it. */
  adoptions: number;
  /** Attempts begun, by event, cycle and attempt: in which adoption each. */
  readonly begun: Map<string, number[]>;
  /** Ids of accepted test events. */
  readonly tests: Set<string>;
  /** Rows that were handed out to be sent: the kind of each when it was. */
  readonly handedOut: Map<string, DeliveryKind>;
  /** Attempts under way, by process. */
  readonly open: Map<string, number>;
  /** The last version of which an operator was told that it holds. */
  knownVersion: number;
  /** Somebody has asked to delete it; nobody else asks for anything then. */
  isLeaving: boolean;
  isDeleted: boolean;
}

/** A stream that was just created with these types and begins at its cursor. */
export function newLine(
  stream: Stream,
  types: readonly string[],
  { counts, log }: Pick<Line, 'counts' | 'log'>,
): Line {
  return {
    label: labelOf(stream.id),
    id: stream.id,
    log,
    counts,
    spans: [{ after: counts.cursor, types }],
    endpoint: stream.destination.endpoint,
    tokens: new Set([tokenOf(stream)]),
    owner: undefined,
    recorded: new Set(),
    deliveredAt: new Map(),
    accepted: new Set(),
    leftOut: new Set(),
    cycles: new Map(),
    adoptions: 0,
    begun: new Map(),
    tests: new Set(),
    handedOut: new Map(),
    open: new Map(),
    knownVersion: 0,
    isLeaving: false,
    isDeleted: false,
  };
}

/** The secret that goes along with its requests. */
export function tokenOf({ destination }: Stream): string {
  const { authorization } = destination;
  return authorization.method === 'bearer' ? authorization.token : 'none';
}
