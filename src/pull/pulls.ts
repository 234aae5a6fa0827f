import type { Clock, RandomBytes, Timer } from '../core/clock.ts';
import { isSafe } from '../core/offset.ts';
import { greeting, offsetFrame } from '../core/sse.ts';
import type { Log } from '../core/log.ts';
import type { Offset } from '../core/types.ts';
import { ReadLimiter } from '../log/read-limiter.ts';
import type { Hint } from '../store/port/hints.ts';
import type { Store } from '../store/port/store.ts';
import { Hub } from './hub.ts';
import { endRevoked } from './access-checks.ts';
import { connectionTimes } from './connection-times.ts';
import { Reader, type ReaderOptions } from './reader.ts';
import type { PullSettings } from './settings.ts';
import type { Sink, SinkEvents } from './sink.ts';
import { type RequestedStart, type Start, startOf } from './start-position.ts';
import { Counts } from '../core/counts.ts';

/** A reserved connection of a pull. */
export interface Reservation {
  /** Finds where the pull starts. Throws `StoreUnavailable`. */
  startOf(requested: RequestedStart): Promise<Start>;
  /** Starts the pull; the reservation is released when the connection ends. */
  begin(pull: PullRequest, sink: Sink): SinkEvents;
  /** Releases the reservation of a pull that does not start. */
  release(): void;
}

/** Filter, start and access of a pull. */
export interface PullRequest extends Omit<ReaderOptions, 'client'> {
  /** Absent for every type. */
  readonly types: readonly string[] | undefined;
  /**
   * Its client has no offset yet and receives that of the start: otherwise a client that reconnects before its
   * first event would miss those in between.
   */
  readonly isNew: boolean;
}

export interface PullsDeps {
  readonly store: Pick<Store, 'log' | 'time' | 'watch'>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly settings: PullSettings;
  readonly log: Pick<Log, 'warn' | 'error'>;
}

/** A tenant with readers or reservations. */
interface Entry {
  readonly hub: Hub;
  readonly limit: ConnectionLimit;
  readonly releases: Map<Reader, () => void>;
}

/**
 * The open pulls of this node: clients that read the logs of their tenants as server-sent events
 * (docs/http-api.md#pull).
 */
export class Pulls {
  readonly #deps: PullsDeps;
  readonly #entries = new Map<number, Entry>();
  readonly #reads: ReadLimiter;
  readonly #unwatch: () => void;
  /** One for all readers; absent without readers. */
  #timer: Timer | undefined;
  #polledMs = 0;
  /** Raised when the store was replaced: a position found before belongs to another log. */
  #replacements = 0;
  #isClosed = false;

  constructor(deps: PullsDeps) {
    this.#deps = deps;
    this.#reads = new ReadLimiter(deps.clock);
    this.#unwatch = deps.store.watch((hint) => this.#onHint(hint));
  }

  /** Returns the number of open pulls. */
  get open(): number {
    let open = 0;
    for (const { hub } of this.#entries.values()) open += hub.readers.size;
    return open;
  }

  /** Returns whether the client may open another pull now. */
  isFree(tenant: number, client: string): boolean {
    return this.#entries.get(tenant)?.limit.isFree(client) ?? true;
  }

  /** Reserves a connection for a pull; `undefined` when the limit is reached. */
  reserve(tenant: number, client: string): Reservation | undefined {
    const { store, settings } = this.#deps;
    if (!this.isFree(tenant, client)) return undefined;
    const entry = this.#entries.get(tenant) ?? this.#open(tenant);
    const free = entry.limit.take(client);
    const replacements = this.#replacements;
    const release = (): void => {
      free();
      this.#forgetEmpty(tenant, entry);
    };
    return {
      startOf: (requested) =>
        startOf(store.log, tenant, requested, {
          now: store.time.now(),
          retentionMs: settings.eventRetentionMs,
        }),
      begin: (pull, sink) =>
        replacements === this.#replacements
          ? this.#begin(entry, { ...pull, client }, sink, release)
          : endAtOnce(sink, release),
      release,
    };
  }

  /** Ends every pull without an error: the clients resume at another node. */
  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    this.#timer?.cancel();
    for (const { hub } of this.#entries.values()) hub.close();
    this.#reads.close();
  }

  #begin(
    entry: Entry,
    pull: PullRequest & ReaderOptions,
    sink: Sink,
    release: () => void,
  ): SinkEvents {
    const { hub, releases } = entry;
    const reader = new Reader(
      pull,
      connectionTimes(this.#deps, this.#deps.settings),
      hub.groupOf(pull.types),
      sink,
    );
    releases.set(reader, release);
    sink.write(greeting);
    if (pull.isNew && isSafe(pull.position)) sink.write(offsetFrame(pull.position));
    hub.add(reader);
    if (this.#isClosed) hub.end(reader);
    else this.#timer ??= this.#schedule();
    return {
      drained: () => hub.drained(reader),
      stalled: () => hub.stalled(reader),
      gone: () => hub.gone(reader),
    };
  }

  #open(tenant: number): Entry {
    const { store, clock, settings, log } = this.#deps;
    const releases = new Map<Reader, () => void>();
    const hub = new Hub({
      tenant,
      log: store.log,
      clock,
      settings,
      reads: this.#reads,
      onSlow: ({ client }, position) => this.#reportSlow(tenant, client, position),
      onBug: (error) => log.error({ err: error, tenant }, 'a pull failed'),
      onEnd: (reader) => {
        releases.get(reader)?.();
        releases.delete(reader);
      },
    });
    const entry = { hub, limit: createConnectionLimit(settings.connectionsMax), releases };
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
    const fields = { tenant, client, offset: position };
    this.#deps.log.warn(fields, 'a pull was closed because its client did not read');
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'missed') {
      for (const { hub } of this.#entries.values()) hub.pollHead();
      return this.#checkAccess();
    }
    if (hint.kind === 'replaced') {
      this.#replacements += 1;
      for (const { hub } of this.#entries.values()) hub.restart();
      return;
    }
    if (!concernsPulls(hint)) return;
    const hub = this.#entries.get(hint.tenant)?.hub;
    if (hub === undefined) return;
    if (hint.kind === 'appended') hub.appended(hint.events);
    else if (hint.kind === 'head') hub.reached(hint.head);
    // Later: the token check may receive the same hint after this.
    else this.#deps.clock.after(0, () => this.#checkReaders(hub));
  }

  #schedule(): Timer {
    return this.#deps.clock.after(this.#deps.settings.tickMs, () => {
      this.#timer = undefined;
      this.#onTick();
      if (this.#entries.size > 0 && !this.#isClosed) this.#timer ??= this.#schedule();
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
      hub.onTick();
    }
    this.#checkAccess();
  }

  #checkAccess(): void {
    for (const { hub } of this.#entries.values()) this.#checkReaders(hub);
  }

  #checkReaders(hub: Hub): void {
    endRevoked(hub.readers, (reader) => hub.end(reader), this.#deps.log);
  }
}

function concernsPulls(
  hint: Hint,
): hint is Extract<Hint, { kind: 'appended' | 'head' | 'client' | 'keys' }> {
  return ['appended', 'head', 'client', 'keys'].includes(hint.kind);
}

/** Ends a pull whose start was found in a former log: its client reconnects. */
function endAtOnce(sink: Sink, release: () => void): SinkEvents {
  sink.write(greeting);
  sink.end();
  release();
  return { drained: () => undefined, stalled: () => sink.cut(), gone: () => undefined };
}

/** Limits the open pulls of a tenant on this node (LEAT_SSE_MAX_CONNECTIONS). */
interface ConnectionLimit {
  /** Connections that are taken. */
  readonly taken: number;
  /** Returns whether the client may open another one: one client has at most half of them, rounded up. */
  isFree(client: string): boolean;
  /** Takes a connection. Returns a function that releases it; later calls of it do nothing. */
  take(client: string): () => void;
}

function createConnectionLimit(max: number): ConnectionLimit {
  const taken = new Counts<string>();
  const perClient = Math.ceil(max / 2);
  return {
    get taken() {
      return taken.total;
    },
    isFree: (client) => taken.total < max && taken.of(client) < perClient,
    take: (client) => {
      let isTaken = true;
      taken.add(client, 1);
      return () => {
        if (isTaken) taken.add(client, -1);
        isTaken = false;
      };
    },
  };
}
