import { Changes, changedFrame } from '../core/changes.ts';
import { createConnectionLimit, type ConnectionLimit } from '../pull/connection-limit.ts';
import type { ChangesSettings } from './settings.ts';
import type { Watcher } from './watcher.ts';

/** The changes of one tenant, while somebody watches them at this node or at another one. */
export class Topic {
  readonly watchers = new Set<Watcher>();
  readonly limit: ConnectionLimit;
  /** When the other nodes are told next that it is watched here. */
  announceAtMs: number;
  readonly #settings: ChangesSettings;
  /** What can be read in the store. */
  readonly #changes = new Changes();
  /** What other nodes have not been told. */
  readonly #unshared = new Changes();
  #sendAtMs: number;
  /** When the overview is reported once more. */
  #repeatAtMs = Infinity;
  #watchedUntilMs = 0;

  constructor(settings: ChangesSettings, nowMs: number) {
    this.#settings = settings;
    this.limit = createConnectionLimit(settings.connectionsMax);
    this.announceAtMs = nowMs;
    this.#sendAtMs = nowMs + settings.everyMs;
  }

  /** Adds a change that can be read, and that other nodes do not know of; without a stream, of the tenant. */
  changedHere(stream: string | undefined, nowMs: number): void {
    add(this.#changes, stream);
    if (this.isWatchedElsewhere(nowMs)) add(this.#unshared, stream);
  }

  /** Adds changes that can be read, and that other nodes know of. */
  changed(changes: Pick<Changes, 'isEmpty' | 'streams'>): void {
    this.#changes.merge(changes);
  }

  /** Adds a connection, which begins by reading everything. */
  add(watcher: Watcher, nowMs: number): void {
    this.watchers.add(watcher);
    const { everyMs, repeatMs } = this.#settings;
    this.#repeatAtMs = nowMs + everyMs + repeatMs;
  }

  /** Adds that anything may have changed. */
  changedAll(): void {
    this.#changes.addAll();
  }

  /** Keeps it for another node for some time; that node may have missed what was before. */
  watchedElsewhere(nowMs: number): void {
    if (!this.isWatchedElsewhere(nowMs)) this.#unshared.addAll();
    this.#watchedUntilMs = nowMs + this.#settings.watchedMs;
  }

  isWatchedElsewhere(nowMs: number): boolean {
    return nowMs < this.#watchedUntilMs;
  }

  /** Returns whether nobody watches it any more. */
  isIdle(nowMs: number): boolean {
    return this.limit.taken === 0 && !this.isWatchedElsewhere(nowMs);
  }

  /** Sends what has gathered to the watchers of this node, at most once a second. */
  send(nowMs: number): void {
    const { everyMs, stalledMs, repeatMs } = this.#settings;
    if (nowMs < this.#sendAtMs) return;
    this.#sendAtMs = nowMs + everyMs;
    if (!this.#changes.isEmpty) this.#repeatAtMs = nowMs + repeatMs;
    else if (nowMs >= this.#repeatAtMs) {
      this.#repeatAtMs = Infinity;
      this.#changes.addOverview();
    }
    const frame = changedFrame(this.#changes);
    for (const watcher of this.watchers) watcher.send(this.#changes, frame, stalledMs);
    this.#changes.clear();
  }

  /**
   * Returns what other nodes have not been told, and forgets it; `undefined` when there is nothing.
   * Names at most so many streams.
   */
  takeUnshared(streamsMax: number): readonly string[] | 'all' | undefined {
    if (this.#unshared.isEmpty) return undefined;
    const { streams } = this.#unshared;
    this.#unshared.clear();
    return streams.length > streamsMax ? 'all' : streams;
  }
}

function add(changes: Changes, stream: string | undefined): void {
  if (stream === undefined) changes.addOverview();
  else changes.addStream(stream);
}
