import type { Clock, RandomBytes, Timer } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { greeting } from '../core/sse.ts';
import type { DeliveryReport } from '../delivery/report.ts';
import { type AccessCheck, endRevoked } from '../pull/access-checks.ts';
import { connectionTimes } from '../pull/connection-times.ts';
import type { Sink, SinkEvents } from '../pull/sink.ts';
import type { Hint } from '../store/port/hints.ts';
import type { Store } from '../store/port/store.ts';
import { Exchange } from './exchange.ts';
import type { ChangesSettings } from './settings.ts';
import { Topic } from './topic.ts';
import { Watcher } from './watcher.ts';

/**
 * The connections of this node that report what changed in a tenant, so that pages know what to read
 * again (docs/http-api.md#changes).
 */
export interface Watchers {
  /** Returns whether the client may open another connection now. */
  isFree(tenant: number, client: string): boolean;
  /** Reserves a connection; `undefined` when the limit is reached. */
  reserve(tenant: number, client: string): WatchReservation | undefined;
  /** Adds what the dispatcher of this node did. */
  report(report: DeliveryReport): void;
  /** Adds a change of a stream, or of the tenant, that is in the store and that no hint reports. */
  changed(tenant: number, stream: string | undefined): void;
  /** Open connections. */
  readonly open: number;
  /** Ends every connection: the clients connect again. */
  close(): void;
}

/** A reserved connection. */
export interface WatchReservation {
  /** Starts to report; the reservation is released when the connection ends. */
  begin(access: AccessCheck, sink: Sink): SinkEvents;
  /** Releases the reservation of a connection that does not start. */
  release(): void;
}

export interface WatchersDeps {
  readonly store: Pick<Store, 'watch' | 'share'>;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly settings: ChangesSettings;
  /** Unique name of this process. */
  readonly node: string;
  readonly log: Pick<Log, 'error'>;
}

export function createWatchers(deps: WatchersDeps): Watchers {
  return new NodeWatchers(deps);
}

class NodeWatchers implements Watchers {
  readonly #deps: WatchersDeps;
  readonly #topics = new Map<number, Topic>();
  readonly #releases = new Map<Watcher, () => void>();
  readonly #unwatch: () => void;
  /** One for all connections; absent when nobody watches, here or at another node. */
  #timer: Timer | undefined;
  readonly #exchange: Exchange;
  #isClosed = false;

  constructor(deps: WatchersDeps) {
    this.#deps = deps;
    this.#exchange = new Exchange(deps);
    this.#unwatch = deps.store.watch((hint) => this.#onHint(hint));
  }

  get open(): number {
    return this.#releases.size;
  }

  isFree(tenant: number, client: string): boolean {
    return this.#topics.get(tenant)?.limit.isFree(client) ?? true;
  }

  reserve(tenant: number, client: string): WatchReservation | undefined {
    if (!this.isFree(tenant, client)) return undefined;
    const topic = this.#topicOf(tenant);
    const release = topic.limit.take(client);
    return { begin: (access, sink) => this.#begin(topic, access, sink, release), release };
  }

  report(report: DeliveryReport): void {
    if (report.kind === 'settled' || report.kind === 'cursors_raised') {
      for (const { tenant, stream } of report.streams) this.changed(tenant, stream);
    } else if (report.kind === 'stream_owned') {
      // The last owner may have ended before it reported what it did.
      this.changed(report.tenant, report.stream);
    } else if (report.kind === 'store_recovered') this.#changedAll();
  }

  changed(tenant: number, stream: string | undefined): void {
    this.#topics.get(tenant)?.changedHere(stream, this.#deps.clock.elapsedMs());
  }

  close(): void {
    this.#isClosed = true;
    this.#unwatch();
    this.#timer?.cancel();
    for (const { watchers } of this.#topics.values()) {
      for (const watcher of watchers) {
        // A client that does not read would delay shutdown.
        if (watcher.sink.isBlocked) watcher.sink.cut();
        this.#end(watchers, watcher);
      }
    }
  }

  #begin(topic: Topic, access: AccessCheck, sink: Sink, release: () => void): SinkEvents {
    const { settings } = this.#deps;
    const watcher = new Watcher(access, connectionTimes(this.#deps, settings), sink);
    const { watchers } = topic;
    topic.add(watcher, this.#deps.clock.elapsedMs());
    this.#releases.set(watcher, release);
    sink.write(greeting);
    if (this.#isClosed) this.#end(watchers, watcher);
    return {
      drained: () => watcher.drained(),
      stalled: () => sink.cut(),
      gone: () => this.#remove(watchers, watcher),
    };
  }

  #topicOf(tenant: number): Topic {
    const { clock, settings } = this.#deps;
    const known = this.#topics.get(tenant);
    if (known !== undefined) return known;
    const nowMs = clock.elapsedMs();
    if (this.#topics.size === 0) this.#exchange.open(nowMs);
    const topic = new Topic(settings, nowMs);
    this.#topics.set(tenant, topic);
    if (!this.#isClosed) this.#timer ??= this.#schedule();
    return topic;
  }

  #remove(watchers: Set<Watcher>, watcher: Watcher): boolean {
    if (!watchers.delete(watcher)) return false;
    watcher.isEnded = true;
    this.#releases.get(watcher)?.();
    this.#releases.delete(watcher);
    return true;
  }

  /** Ends the response; a client that does not read the rest is cut off. */
  #end(watchers: Set<Watcher>, watcher: Watcher): void {
    if (!this.#remove(watchers, watcher)) return;
    watcher.sink.stallsAfter(this.#deps.settings.stalledMs);
    watcher.sink.end();
  }

  #changedAll(): void {
    for (const topic of this.#topics.values()) topic.changedAll();
  }

  #onHint(hint: Hint): void {
    if (hint.kind === 'watched') return this.#onWatched(hint);
    if (hint.kind === 'missed' || hint.kind === 'replaced') {
      this.#changedAll();
      return this.#checkAccess();
    }
    if (hint.kind === 'free' || hint.kind === 'tenants') return;
    const topic = this.#topics.get(hint.tenant);
    if (topic === undefined) return;
    if (hint.kind === 'changed') topic.changed({ isEmpty: false, streams: hint.streams });
    else if (hint.kind === 'stream') topic.changed({ isEmpty: false, streams: [hint.stream] });
    else if (hint.kind === 'appended' || hint.kind === 'head')
      topic.changed({ isEmpty: false, streams: [] });
    // Later: the token check may receive the same hint after this.
    else this.#deps.clock.after(0, () => this.#checkReaders(topic));
  }

  /** Its own word has come back, so notifications arrive; another node's makes this one report to it. */
  #onWatched({ by, tenant }: Extract<Hint, { kind: 'watched' }>): void {
    const nowMs = this.#deps.clock.elapsedMs();
    if (by === this.#deps.node) this.#exchange.received(nowMs);
    else this.#topicOf(tenant).watchedElsewhere(nowMs);
  }

  #schedule(): Timer {
    return this.#deps.clock.after(this.#deps.settings.tickMs, () => {
      this.#timer = undefined;
      this.#onTick(this.#deps.clock.elapsedMs());
      if (this.#topics.size > 0 && !this.#isClosed) this.#timer ??= this.#schedule();
    });
  }

  #onTick(nowMs: number): void {
    const { settings } = this.#deps;
    for (const [tenant, topic] of this.#topics) {
      if (topic.isIdle(nowMs)) this.#topics.delete(tenant);
      for (const watcher of topic.watchers) {
        if (nowMs >= watcher.endsAtMs) this.#end(topic.watchers, watcher);
        else watcher.beat(nowMs, settings.heartbeatMs);
      }
    }
    this.#exchange.onTick(this.#topics, nowMs);
    for (const topic of this.#topics.values()) topic.send(nowMs);
    this.#checkAccess();
  }

  #checkAccess(): void {
    for (const topic of this.#topics.values()) this.#checkReaders(topic);
  }

  #checkReaders({ watchers }: Topic): void {
    endRevoked(watchers, (watcher) => this.#end(watchers, watcher), this.#deps.log);
  }
}
