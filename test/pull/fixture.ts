import type { Clock, Timer } from '../../src/core/clock.ts';
import { formatOffset } from '../../src/core/offset.ts';
import type { NewEvent, Offset } from '../../src/core/types.ts';
import { limits } from '../../src/config.ts';
import { type PullRequest, Pulls } from '../../src/pull/pulls.ts';
import type { PullSettings } from '../../src/pull/settings.ts';
import type { RequestedStart } from '../../src/pull/start-position.ts';
import type { Sink, SinkEvents } from '../../src/pull/sink.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createGuardedTime } from '../../src/store/engine/sqlite/guarded-time.ts';
import { openMemoryStore, random } from '../auth/fixture.ts';
import { positionOf } from '../helpers/pull.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';

/** The pulls of one node over a real store, with a manual clock and manual connections. */
export interface PullFixture {
  readonly store: Store;
  readonly tenant: number;
  readonly clock: ManualClock;
  readonly pulls: Pulls;
  readonly logged: { readonly facts: object; readonly message: string }[];
  /** Appends one event for each type; returns the head. */
  append(...types: readonly string[]): Promise<Offset>;
  /** Appends `count` events of 1,000 characters. */
  appendLong(count: number): Promise<Offset>;
  /** Opens a pull, by default at the end of the log. */
  open(options?: OpenOptions): Promise<Wire>;
  close(): Promise<void>;
}

export interface OpenOptions {
  readonly after?: Offset;
  /** Instead of `after`. */
  readonly start?: RequestedStart;
  readonly types?: readonly string[];
  readonly isNew?: boolean;
  readonly client?: string;
  readonly tenant?: number;
  readonly stillValid?: () => boolean | Promise<boolean>;
  readonly wire?: Wire;
}

export const settings: PullSettings = {
  ...limits.pull,
  connectionsMax: 100,
  eventRetentionMs: 7 * 86_400_000,
};

export async function createPullFixture(
  options: {
    settings?: Partial<PullSettings>;
    around?: (store: Store) => Store;
    store?: Store;
    clock?: ManualClock;
  } = {},
): Promise<PullFixture> {
  const { clock = createManualClock() } = options;
  const opened = options.store ?? (await openMemoryStore(createGuardedTime(clock)));
  const store = options.around?.(opened) ?? opened;
  const made = await opened.tenants.create({ name: 'main', domain: 'localhost' }, clock.now());
  const tenant = 'created' in made ? made.created.id : 1;
  const logged: PullFixture['logged'][number][] = [];
  const addEntry = (facts: object, message: string): void => void logged.push({ facts, message });
  const pulls = new Pulls({
    store,
    clock,
    random,
    settings: { ...settings, ...options.settings },
    log: { warn: addEntry, error: addEntry },
  });
  return {
    store,
    tenant,
    clock,
    pulls,
    logged,
    append: (...types) => appendTo(opened, tenant, clock, types),
    appendLong: (count) => {
      const types = Array<string>(count).fill('a.made');
      return appendTo(opened, tenant, clock, types, 'x'.repeat(1000));
    },
    open: async (request = {}) => {
      const {
        after,
        client = 'client',
        types,
        isNew = false,
        stillValid = () => true,
        wire = new Wire(),
      } = request;
      const reservation = pulls.reserve(request.tenant ?? tenant, client);
      if (reservation === undefined) throw new Error('connection limit reached');
      const requested = after === undefined ? 'now' : ({ after: { offset: after } } as const);
      const start = await reservation.startOf(request.start ?? requested);
      if ('refused' in start) throw new Error(start.refused);
      const access = { token: client, stillValid };
      wire.clock = clock;
      const pull: PullRequest = { position: start.position, types, isNew, access };
      wire.events = reservation.begin(pull, wire);
      await clock.advance(0);
      return wire;
    },
    close: async () => {
      pulls.close();
      await opened.close();
    },
  };
}

let made = 0;

export async function appendTo(
  store: Store,
  tenant: number,
  clock: Pick<Clock, 'now'>,
  types: readonly string[],
  text = '',
): Promise<Offset> {
  const events = types.map((type): NewEvent => {
    made += 1;
    const body = JSON.stringify({ n: made, text });
    return { id: `evt_${made}`, chosen: false, type, time: clock.now(), body };
  });
  const appended = await store.log.append(tenant, events);
  return appended.at(-1)?.offset ?? 0;
}

/** A connection to a client that reads everything, or nothing until {@link Wire.take}. */
export class Wire implements Sink {
  events: SinkEvents | undefined;
  text = '';
  /** Bytes that the client has not read. */
  #waiting = 0;
  #takes: boolean;
  stallsMs: number | undefined;
  /** Of the fixture; without one no timeout runs. */
  clock: Clock | undefined;
  #stalling: Timer | undefined;
  outcome: 'open' | 'ended' | 'cut' = 'open';
  readonly #blockedAt: number;

  constructor(takes = true, blockedAt = 65_536) {
    this.#takes = takes;
    this.#blockedAt = blockedAt;
  }

  get waiting(): number {
    return this.#waiting;
  }

  get isBlocked(): boolean {
    return this.#waiting >= this.#blockedAt;
  }

  write(chunk: string | Uint8Array): void {
    const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
    this.text += text;
    if (!this.#takes) this.#waiting += Buffer.byteLength(text);
  }

  stallsAfter(ms: number | undefined): void {
    this.stallsMs = ms;
    this.#stalling?.cancel();
    if (ms !== undefined) this.#stalling = this.clock?.after(ms, () => this.events?.stalled());
  }

  end(): void {
    if (this.outcome === 'open') this.outcome = 'ended';
    if (this.#waiting === 0) this.#stalling?.cancel();
  }

  cut(): void {
    this.outcome = 'cut';
    this.#stalling?.cancel();
    this.events?.gone();
  }

  /** The client reads everything that waits, and also what follows when it `takes`. */
  take(takes: boolean): void {
    this.#takes = takes;
    this.#waiting = 0;
    this.events?.drained();
  }

  /** The text, with the checks removed from its offsets. */
  get plain(): string {
    return this.text.replaceAll(/\bMDAw[A-Za-z0-9]{24}\b/g, positionOf);
  }

  /** Offsets of the events so far, without `offset-only` frames. */
  get offsets(): string[] {
    return [...this.text.matchAll(/^event: [a-z_]+\..*\nid: (?<id>.*)$/gm)].map((match) =>
      positionOf(match.groups?.['id'] ?? ''),
    );
  }
}

/** Returns offsets as {@link Wire.offsets} shows them. */
export function shown(...offsets: readonly Offset[]): string[] {
  return offsets.map((offset) => formatOffset(offset));
}

/** Returns all offsets from one to another. */
export function range(from: Offset, to: Offset): Offset[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
