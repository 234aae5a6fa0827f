import type { CursorRaise, OwnedStream } from '../../src/store/port/ownership.ts';
import type { Node } from '../../src/core/types.ts';
import * as model from '../store/contract/model.ts';
import { type Account, processOf } from './account.ts';
import type { Line } from './line.ts';
import type { Tables } from './tables.ts';

/** A process whose machine was suspended. */
interface Sleeper {
  /** Until when it may go by what it knew. */
  readonly untilMs: number;
  /** How many attempts it has begun for each stream since. */
  readonly sent: Map<Line, number>;
}

/** Which process works for which stream, and for how long. */
export class Leases {
  readonly leases = new Map<string, number>();
  readonly dueClaims = new Map<string, number>();
  /** Processes that have not joined since the store went back, and when their leases end. */
  readonly unaware = new Map<string, number>();
  readonly asleep = new Map<string, Sleeper>();
  readonly #account: Account;
  readonly #tables: Tables;

  constructor(account: Account, tables: Tables) {
    this.#account = account;
    this.#tables = tables;
  }

  joined(node: Node, leaseMs: number): void {
    this.#free(node.id);
    for (const process of this.leases.keys()) {
      if (process.startsWith(`${node.id}#`)) this.leases.delete(process);
    }
    for (const process of this.unaware.keys()) {
      if (process.startsWith(`${node.id}#`)) this.unaware.delete(process);
    }
    for (const process of this.asleep.keys()) {
      if (process.startsWith(`${node.id}#`)) this.asleep.delete(process);
    }
    this.leases.set(processOf(node), this.#account.deps.nowMs() + leaseMs);
  }

  /**
   * The node wakes after its machine was suspended, and cannot know: for what its own clock says is
   * left of its lease it works by what it knew.
   */
  slept(node: Node): void {
    const untilMs = this.#account.deps.nowMs() + this.#account.deps.settings.leaseStopMs;
    this.asleep.set(processOf(node), { untilMs, sent: new Map() });
  }

  renewed(node: Node, leaseMs: number): void {
    this.leases.set(processOf(node), this.#account.deps.nowMs() + leaseMs);
  }

  claimed(node: Node, claim: number, answer: readonly OwnedStream[], now: number): void {
    const process = processOf(node);
    const isRepeated = claim <= (this.dueClaims.get(process) ?? 0);
    if (!isRepeated && this.isLeased(process)) {
      this.dueClaims.set(process, claim);
      this.#freeExpiredNodes();
    }
    for (const { stream, epoch } of answer) {
      const line = this.#account.lines.get(stream.id);
      if (line === undefined) continue;
      if (!isRepeated) this.#takeOver(line, { process, epoch }, now);
      else if (epoch !== line.counts.epoch)
        this.#account.break('repeated', `${line.label}, a second time`);
    }
  }

  #takeOver(line: Line, owner: { process: string; epoch: number }, now: number): void {
    if (line.owner !== undefined) {
      this.#account.break(
        'lease',
        `${line.label} was taken from ${line.owner.process} during its lease`,
      );
    }
    this.#checkSentAgain(line);
    model.claim(line.counts, now);
    line.owner = owner;
    this.#tables.check(line);
  }

  /** Whether a process with a lease works for the stream. */
  isOwned({ owner }: Line): boolean {
    return owner !== undefined && this.isLeased(owner.process);
  }

  isLeased(process: string): boolean {
    return (this.leases.get(process) ?? 0) > this.#account.deps.nowMs();
  }

  /** A claim frees what nodes own whose lease has ended. */
  #freeExpiredNodes(): void {
    for (const line of this.#account.lines.values()) {
      if (line.owner !== undefined && !this.isLeased(line.owner.process)) line.owner = undefined;
    }
  }

  released(node: Node, cursors: readonly CursorRaise[]): void {
    for (const cursor of cursors) {
      this.raised(node, [cursor]);
      const line = this.#account.lines.get(cursor.stream);
      if (line?.owner?.process === processOf(node) && line.owner.epoch === cursor.epoch) {
        line.owner = undefined;
      }
    }
  }

  left(node: Node): void {
    for (const line of this.#account.lines.values()) {
      if (line.owner?.process === processOf(node)) line.owner = undefined;
    }
    this.leases.delete(processOf(node));
  }

  /** `node` may have moved these cursors. */
  raised(node: Node, cursors: readonly CursorRaise[]): void {
    for (const { stream, epoch } of cursors) {
      const line = this.#account.lines.get(stream);
      if (line !== undefined && !line.isDeleted)
        this.#tables.check(line, { process: processOf(node), epoch });
    }
  }

  #free(nodeId: string): void {
    for (const line of this.#account.lines.values()) {
      if (line.owner?.process.startsWith(`${nodeId}#`)) line.owner = undefined;
    }
  }

  /** How much a new owner sends again, of what the former one sent and did not get recorded. */
  #checkSentAgain(line: Line): void {
    const { parkAfterEvents, streamConcurrency, settleMax, concurrency } =
      this.#account.deps.settings;
    let above = 0;
    for (let offset = line.counts.cursor + 1; offset <= line.log.head; offset += 1) {
      const event = line.log.event(offset);
      if (event === undefined || line.counts.rows.has(event.id)) continue;
      if (
        line.begun.has(this.#account.attemptKey(line, event.id, 1)) &&
        this.#account.wants(line, offset)
      )
        above += 1;
    }
    const parked = [...line.counts.rows.values()].filter(
      ({ state, eventId, attempt }) =>
        state === 'parked' && line.begun.has(this.#account.attemptKey(line, eventId, attempt)),
    );
    const bound = parkAfterEvents + Math.max(streamConcurrency, settleMax) + streamConcurrency;
    if (above > bound) {
      this.#account.break(
        'twice',
        `${above} events above the cursor of ${line.label}, at most ${bound}`,
      );
    }
    const all = above + parked.length;
    if (all > bound + settleMax + concurrency) {
      this.#account.break('twice', `${all} events of ${line.label} are sent again`);
    }
  }
}
