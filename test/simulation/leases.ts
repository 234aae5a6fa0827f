import type { CursorRaise, OwnedStream } from '../../src/store/port/ownership.ts';
import type { Node } from '../../src/core/types.ts';
import * as model from '../store/contract/model.ts';
import { type OracleCore, processOf } from './oracle-core.ts';
import { isOrdered } from './order.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Tables } from './tables.ts';

/** A process whose machine was suspended. */
interface SuspendedProcess {
  /** Until when it may rely on its former state. */
  readonly untilMs: number;
  /** Attempts begun for each stream since. */
  readonly sent: Map<SimulatedStream, number>;
}

/** The owner of each stream, and the leases of the processes. */
export class Leases {
  readonly leases = new Map<string, number>();
  readonly dueClaims = new Map<string, number>();
  /** Processes that have not joined since the store was restored, and when their leases end. */
  readonly staleLeases = new Map<string, number>();
  readonly suspended = new Map<string, SuspendedProcess>();
  readonly #core: OracleCore;
  readonly #tables: Tables;

  constructor(core: OracleCore, tables: Tables) {
    this.#core = core;
    this.#tables = tables;
  }

  joined(node: Node, leaseMs: number): void {
    this.#free(node.id);
    for (const process of this.leases.keys()) {
      if (process.startsWith(`${node.id}#`)) this.leases.delete(process);
    }
    for (const process of this.staleLeases.keys()) {
      if (process.startsWith(`${node.id}#`)) this.staleLeases.delete(process);
    }
    for (const process of this.suspended.keys()) {
      if (process.startsWith(`${node.id}#`)) this.suspended.delete(process);
    }
    this.leases.set(processOf(node), this.#core.deps.nowMs() + leaseMs);
  }

  /**
   * A node whose machine was suspended cannot know it: for the rest of its lease by its own clock it
   * relies on its former state.
   */
  resumed(node: Node): void {
    const untilMs = this.#core.deps.nowMs() + this.#core.deps.settings.leaseStopMs;
    this.suspended.set(processOf(node), { untilMs, sent: new Map() });
  }

  renewed(node: Node, leaseMs: number): void {
    this.leases.set(processOf(node), this.#core.deps.nowMs() + leaseMs);
  }

  claimed(node: Node, claim: number, claims: readonly OwnedStream[], now: number): void {
    const process = processOf(node);
    const isRepeated = claim <= (this.dueClaims.get(process) ?? 0);
    if (!isRepeated && this.isLeased(process)) {
      this.dueClaims.set(process, claim);
      this.#freeExpiredNodes();
    }
    for (const { stream: owned, epoch } of claims) {
      const stream = this.#core.streams.get(owned.id);
      if (stream === undefined) continue;
      if (!isRepeated) this.#takeOver(stream, { process, epoch }, now);
      else if (epoch !== stream.counts.epoch)
        this.#core.violate('repeated', `${stream.label}, a second time`);
    }
  }

  #takeOver(stream: SimulatedStream, owner: { process: string; epoch: number }, now: number): void {
    if (stream.owner !== undefined) {
      this.#core.violate(
        'lease',
        `${stream.label} was taken from ${stream.owner.process} during its lease`,
      );
    }
    this.#checkSentAgain(stream);
    model.claim(stream.counts, now);
    stream.owner = owner;
    this.#tables.check(stream);
  }

  /** Returns whether a process with a lease owns the stream. */
  isOwned({ owner }: SimulatedStream): boolean {
    return owner !== undefined && this.isLeased(owner.process);
  }

  isLeased(process: string): boolean {
    return (this.leases.get(process) ?? 0) > this.#core.deps.nowMs();
  }

  /** Frees the streams of nodes whose lease has ended, as a claim does. */
  #freeExpiredNodes(): void {
    for (const stream of this.#core.streams.values()) {
      if (stream.owner !== undefined && !this.isLeased(stream.owner.process))
        stream.owner = undefined;
    }
  }

  released(node: Node, cursors: readonly CursorRaise[]): void {
    for (const cursor of cursors) {
      this.raised(node, [cursor]);
      const stream = this.#core.streams.get(cursor.stream);
      if (stream?.owner?.process === processOf(node) && stream.owner.epoch === cursor.epoch) {
        stream.owner = undefined;
      }
    }
  }

  left(node: Node): void {
    for (const stream of this.#core.streams.values()) {
      if (stream.owner?.process === processOf(node)) stream.owner = undefined;
    }
    this.leases.delete(processOf(node));
  }

  /** Checks cursors that `node` may have moved. */
  raised(node: Node, cursors: readonly CursorRaise[]): void {
    for (const { stream: streamId, epoch } of cursors) {
      const stream = this.#core.streams.get(streamId);
      if (stream !== undefined && !stream.isDeleted)
        this.#tables.check(stream, { process: processOf(node), epoch });
    }
  }

  #free(nodeId: string): void {
    for (const stream of this.#core.streams.values()) {
      if (stream.owner?.process.startsWith(`${nodeId}#`)) stream.owner = undefined;
    }
  }

  /** Checks how many events a new owner sends again: sent by the former one and not recorded. */
  #checkSentAgain(stream: SimulatedStream): void {
    const { parkAfterEvents, streamConcurrency, settleMax, concurrency } = this.#core.deps.settings;
    let above = 0;
    for (let offset = stream.counts.cursor + 1; offset <= stream.log.head; offset += 1) {
      const event = stream.log.event(offset);
      if (event === undefined || stream.counts.rows.has(event.id)) continue;
      // The store knows what a stream that sends in order has settled above its cursor.
      if (isOrdered(stream) && stream.deliveredAt.has(offset)) continue;
      if (
        stream.begun.has(this.#core.attemptKey(stream, event.id, 1)) &&
        this.#core.wants(stream, offset)
      )
        above += 1;
    }
    const parked = [...stream.counts.rows.values()].filter(
      ({ state, eventId, attempt }) =>
        state === 'parked' && stream.begun.has(this.#core.attemptKey(stream, eventId, attempt)),
    );
    const bound = parkAfterEvents + Math.max(streamConcurrency, settleMax) + streamConcurrency;
    if (above > bound) {
      this.#core.violate(
        'duplicates',
        `${above} events above the cursor of ${stream.label}, at most ${bound}`,
      );
    }
    const all = above + parked.length;
    if (all > bound + settleMax + concurrency) {
      this.#core.violate('duplicates', `${all} events of ${stream.label} are sent again`);
    }
  }
}
