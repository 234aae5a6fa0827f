import { Changes, changedFrame } from '../core/changes.ts';
import { heartbeat } from '../core/sse.ts';
import type { AccessCheck } from '../pull/access-checks.ts';
import type { ConnectionTimes } from '../pull/connection-times.ts';
import type { Sink } from '../pull/sink.ts';

/** One open connection that reports changes. */
export class Watcher {
  readonly access: AccessCheck;
  readonly sink: Sink;
  readonly endsAtMs: number;
  /** When the next heartbeat is due. */
  beatAtMs: number;
  isEnded = false;
  /** What it has not been sent: at first everything, as a page may have been read before it opened. */
  readonly #pending = new Changes();
  /** Whether the timeout of a client that does not read is running. */
  #isTimed = false;

  constructor(access: AccessCheck, times: ConnectionTimes, sink: Sink) {
    this.access = access;
    this.sink = sink;
    this.endsAtMs = times.endsAtMs;
    this.beatAtMs = times.beatAtMs;
    this.#pending.addAll();
  }

  /** Sends changes; those that its client does not read yet merge. */
  send(changes: Changes, frame: string, stalledMs: number): void {
    if (this.sink.isBlocked) {
      this.#pending.merge(changes);
      this.#startTimeout(stalledMs);
    } else if (this.#pending.isEmpty) {
      if (!changes.isEmpty) this.sink.write(frame);
    } else {
      this.#pending.merge(changes);
      this.sink.write(changedFrame(this.#pending));
      this.#pending.clear();
    }
  }

  /** Sends a heartbeat when one is due. */
  beat(nowMs: number, heartbeatMs: number): void {
    if (nowMs < this.beatAtMs) return;
    while (this.beatAtMs <= nowMs) this.beatAtMs += heartbeatMs;
    // It would be queued after data that the client does not read.
    if (!this.sink.isBlocked) this.sink.write(heartbeat);
  }

  /** Handles that the client reads again. */
  drained(): void {
    if (this.isEnded) return;
    this.#isTimed = false;
    this.sink.stallsAfter(undefined);
  }

  #startTimeout(stalledMs: number): void {
    if (this.#isTimed) return;
    this.#isTimed = true;
    this.sink.stallsAfter(stalledMs);
  }
}
