import type { Clock, RandomBytes, Timer } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';
import { greeting } from '../core/sse.ts';
import type { Offset } from '../core/types.ts';
import { ReadLimiter } from '../log/read-limiter.ts';
import type { Hint } from '../store/port/hints.ts';
import type { Store } from '../store/port/store.ts';
import { Hub } from './hub.ts';
import { Reader, type ReaderFacts, type ReaderTimes } from './reader.ts';
import { createConnectionLimit, type ConnectionLimit } from './connection-limit.ts';
import type { PullSettings } from './settings.ts';
import type { Sink, SinkEvents } from './sink.ts';
import { type AskedStart, type Start, startOf } from './start-position.ts';

/**
 * The open pulls of this node: clients that read the logs of their tenants as server-sent events
 * (docs/http-api.md#pull). The room borrows `delivery/tail.ts`, the end of a log in memory, and
 * `log/read-limiter.ts`, taking turns in reading it, and nothing else of that room.
 */
export interface Pulls {
  /** Whether a further pull of the client would be admitted now. */
  isFree(tenant: number, client: string): boolean;
  /** Takes a place for a pull; `undefined` when there is none. */
  take(tenant: number, client: string): Reservation | undefined;
  /** Open pulls. */
  readonly open: number;
  /** Ends every pull, as a matter of course: their clients go on elsewhere. */
  close(): void;
}

/** The place of a pull that is about to begin. */
export interface Reservation {
  /** Where it begins. Throws `StoreUnavailable`. */
  startOf(asked: AskedStart): Promise<Start>;
  /** Begins to write; the place is given back when the connection ends. */
  begin(pull: PullRequest, sink: Sink): SinkEvents;
  /** Gives the place back: the pull does not begin. */
  leave(): void;
}

/** What a pull is opened with. */
export interface PullRequest extends Omit<ReaderFacts, 'client'> {
  /** Absent for every type. */
  readonly types: readonly string[] | undefined;
}

export interface PullsDeps {
  readonly store: Pick<Store, 'log' | 'time' | 'watch'>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly settings: PullSettings;
  readonly log: {
    warn(facts: Readonly<Record<string, unknown>>, message: string): void;
    error(facts: Readonly<Record<string, unknown>>, message: string): void;
  };
}

/** See {@link Pulls}. */
export function createPulls(deps: PullsDeps): Pulls {
  return new NodePulls(deps);
}

/** A tenant with readers, or with one that is about to begin. */
interface Entry {
  readonly hub: Hub;
  readonly limit: ConnectionLimit;
  readonly leaves: Map<Reader, () => void>;
}

class NodePulls implements Pulls {
  readonly #deps: PullsDeps;
  readonly #entries = new Map<number, Entry>();
  readonly #turns: ReadLimiter;
  readonly #unwatch: () => void;
  /** One for all readers, as long as there are any. */
  #timer: Timer | undefined;
  #polledMs = 0;
  /** Raised when the store was replaced: a position found before is one of another log. */
  #term = 0;
  #isClosed = false;

  constructor(deps: PullsDeps) {
    this.#deps = deps;
    this.#turns = new ReadLimiter(deps.clock);
    this.#unwatch = deps.store.watch((hint) => this.#onHint(hint));
  }

  get open(): number {
    let open = 0;
    for (const { hub } of this.#entries.values()) open += hub.readers.size;
    return open;
  }

  isFree(tenant: number, client: string): boolean {
    return this.#entries.get(tenant)?.limit.isFree(client) ?? true;
  }

  take(tenant: number, client: string): Reservation | undefined {
    const { store, settings } = this.#deps;
    if (!this.isFree(tenant, client)) return undefined;
    const entry = this.#entries.get(tenant) ?? this.#open(tenant);
    const free = entry.limit.take(client);
    const term = this.#term;
    const leave = (): void => {
      free();
      this.#forgetEmpty(tenant, entry);
    };
    return {
      startOf: (asked) =>
        startOf(store.log, tenant, asked, {
          now: store.time.now(),
          retentionMs: settings.eventRetentionMs,
        }),
      begin: (pull, sink) =>
        term === this.#term
          ? this.#begin(entry, { ...pull, client }, sink, leave)
          : endAtOnce(sink, leave),
      leave,
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    this.#timer?.cancel();
    for (const { hub } of this.#entries.values()) hub.close();
    this.#turns.close();
  }

  #begin(entry: Entry, pull: PullRequest & ReaderFacts, sink: Sink, leave: () => void): SinkEvents {
    const { hub, leaves } = entry;
    const reader = new Reader(pull, this.#times(), hub.groupOf(pull.types), sink);
    leaves.set(reader, leave);
    sink.write(greeting);
    hub.add(reader);
    if (this.#isClosed) hub.end(reader);
    else this.#timer ??= this.#plan();
    return {
      drained: () => hub.drained(reader),
      stalled: () => hub.stalled(reader),
      gone: () => hub.gone(reader),
    };
  }

  #open(tenant: number): Entry {
    const { store, clock, settings, log } = this.#deps;
    const leaves = new Map<Reader, () => void>();
    const hub = new Hub({
      tenant,
      log: store.log,
      clock,
      settings,
      turns: this.#turns,
      slow: ({ client }, position) => this.#reportSlow(tenant, client, position),
      unexpected: (error) => log.error({ err: error, tenant }, 'a pull failed'),
      ended: (reader) => {
        leaves.get(reader)?.();
        leaves.delete(reader);
      },
    });
    const entry = { hub, limit: createConnectionLimit(settings.connectionsMax), leaves };
    this.#entries.set(tenant, entry);
    return entry;
  }

  #forgetEmpty(tenant: number, { limit, hub }: Entry): void {
    if (limit.taken > 0 || this.#entries.get(tenant)?.limit !== limit) return;
    this.#entries.delete(tenant);
    hub.close();
    if (this.#entries.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #reportSlow(tenant: number, client: string, position: Offset): void {
    const facts = { tenant, client, offset: position };
    this.#deps.log.warn(facts, 'a pull was closed because its client did not read');
  }

  /** Readers that came together do not all come back together. */
  #times(): ReaderTimes {
    const { clock, random, settings } = this.#deps;
    const { heartbeatMs, lifetimeMs, spreadMs } = settings;
    const [high = 0, low = 0] = random(2);
    const share = (high * 256 + low) / 65_536;
    const nowMs = clock.elapsedMs();
    return {
      beatAtMs: nowMs + heartbeatMs,
      endsAtMs: nowMs + lifetimeMs - settings.tickMs - share * spreadMs,
    };
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'missed') {
      for (const { hub } of this.#entries.values()) hub.pollHead();
      return this.#checkAccess();
    }
    if (hint.kind === 'replaced') {
      this.#term += 1;
      for (const { hub } of this.#entries.values()) hub.restart();
      return;
    }
    if (hint.kind === 'stream' || hint.kind === 'free' || hint.kind === 'tenants') return;
    const hub = this.#entries.get(hint.tenant)?.hub;
    if (hub === undefined) return;
    if (hint.kind === 'appended') hub.appended(hint.events);
    else if (hint.kind === 'head') hub.reached(hint.head);
    // Whoever judges the token hears of the same change, perhaps after this room.
    else this.#deps.clock.after(0, () => this.#checkReaders(hub));
  }

  #plan(): Timer {
    return this.#deps.clock.after(this.#deps.settings.tickMs, () => {
      this.#timer = undefined;
      this.#onTick();
      if (this.#entries.size > 0 && !this.#isClosed) this.#timer ??= this.#plan();
    });
  }

  #onTick(): void {
    const nowMs = this.#deps.clock.elapsedMs();
    const isPoll = nowMs - this.#polledMs >= this.#deps.settings.pollMs;
    if (isPoll) this.#polledMs = nowMs;
    for (const { hub } of this.#entries.values()) {
      if (isPoll) {
        hub.age();
        hub.pollHead();
      }
      hub.checkLog();
    }
    this.#checkAccess();
  }

  #checkAccess(): void {
    for (const { hub } of this.#entries.values()) this.#checkReaders(hub);
  }

  /** Ends the pulls whose tokens do not hold any more; each token is judged once. */
  #checkReaders(hub: Hub): void {
    const judged = new Map<string, boolean | Promise<boolean>>();
    for (const reader of hub.readers) {
      const { token } = reader.access;
      const verdict = judged.get(token) ?? this.#verdictOf(reader);
      judged.set(token, verdict);
      if (verdict === false) hub.end(reader);
      else if (verdict !== true) void this.#endUnless(verdict, hub, reader);
    }
  }

  #verdictOf({ access }: Reader): boolean | Promise<boolean> {
    const verdict = access.stillValid();
    if (typeof verdict === 'boolean') return verdict;
    return verdict.catch((error: unknown) => {
      // What cannot be found out now is asked again at the next look.
      if (error instanceof StoreUnavailable) return true;
      this.#deps.log.error({ err: error }, 'the token of a pull could not be judged');
      return false;
    });
  }

  async #endUnless(verdict: Promise<boolean>, hub: Hub, reader: Reader): Promise<void> {
    if (!(await verdict)) hub.end(reader);
  }
}

/** A pull whose place was found in another log: its client comes back. */
function endAtOnce(sink: Sink, leave: () => void): SinkEvents {
  sink.write(greeting);
  sink.end();
  leave();
  return { drained: () => undefined, stalled: () => sink.cut(), gone: () => undefined };
}
