import type { Clock, Millis } from '../core/clock.ts';
import { CountsSum, startOf, unitMs } from '../core/delivery-stats.ts';
import { sleep } from '../core/sleep.ts';
import type { DeliveryReport } from '../delivery/report.ts';
import type { DeliveryStatsStore, RecordedMinute } from '../store/port/delivery-stats.ts';
import type { EventTypeStore } from '../store/port/event-types.ts';
import type { Hint } from '../store/port/hints.ts';
import type { StoreTime } from '../store/port/time.ts';
import { SeenTypes } from './seen-types.ts';
import type { StatsSettings } from './settings.ts';

export interface StatsRecorderDeps {
  readonly store: Pick<DeliveryStatsStore, 'record'>;
  readonly eventTypes: Pick<EventTypeStore, 'record'>;
  readonly clock: Pick<Clock, 'after'>;
  readonly time: Pick<StoreTime, 'now'>;
  readonly settings: StatsSettings;
  /** Unique name of this process: its rows are its own. */
  readonly writer: string;
  /** Receives errors of writes; these are repeated. */
  readonly onError: (error: unknown) => void;
}

/** What this node has counted in a minute, of a stream or of a tenant. */
class Minute extends CountsSum {
  /** Whether the store lacks some of it. */
  isChanged = true;
}

/** The minutes of a tenant by stream; `undefined` is the tenant itself. */
type Streams = Map<string | undefined, Minute>;

/** What began at the same instant, by tenant. */
interface Minutes {
  readonly writer: string;
  readonly tenants: Map<number, Streams>;
}

/**
 * Counts events and attempts of this node in memory, by minute, and writes them to the store from time
 * to time. A crash loses what is not written.
 */
export class StatsRecorder {
  readonly #deps: StatsRecorderDeps;
  readonly #types: SeenTypes;
  /** By start. They are dropped once they are over and written. */
  readonly #minutes = new Map<Millis, Minutes>();
  /** The last start of those that were dropped. */
  #droppedTo: Millis = -Infinity;
  /** Raised when time has gone back to minutes that were dropped: their rows must stay. */
  #generation = 0;

  constructor(deps: StatsRecorderDeps) {
    this.#deps = deps;
    const { eventTypes: store, clock, settings } = deps;
    this.#types = new SeenTypes({ store, clock, rowsMax: settings.rowsMax });
  }

  /** Counts an attempt. */
  report(report: DeliveryReport): void {
    if (report.kind !== 'attempt') return;
    const streams = this.#streamsOf(report.tenant);
    count(minuteOf(streams, report.stream), report);
    count(minuteOf(streams, undefined), report);
  }

  /** Counts the events that this node appended, and remembers their types. */
  hint(hint: Hint): void {
    if (hint.kind === 'replaced') this.#types.clear();
    if (hint.kind !== 'appended') return;
    this.#types.add(hint);
    const minute = minuteOf(this.#streamsOf(hint.tenant), undefined);
    minute.published += hint.events.length;
    minute.isChanged = true;
  }

  /** Writes every few seconds until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, settings } = this.#deps;
    while (!signal.aborted) {
      await sleep(clock, settings.everyMs, signal);
      if (!signal.aborted) await this.flush();
    }
  }

  /** Writes what is not written. */
  async flush(): Promise<void> {
    // Hours that they belong to may have been added up.
    this.#dropOld();
    try {
      for (const [at, { writer, tenants }] of this.#minutes) {
        await this.#write(writer, changedOf(at, tenants));
      }
      await this.#types.flush();
    } catch (error) {
      this.#deps.onError(error);
    }
    this.#dropWritten();
  }

  async #write(writer: string, changed: Changed[]): Promise<void> {
    const { store, clock, settings } = this.#deps;
    while (changed.length > 0) {
      const part = changed.splice(0, settings.rowsMax);
      const rows = part.map(({ minute, ...about }) => ({ ...about, ...minute.stored() }));
      await recordPart(part, () => store.record(writer, rows));
      await sleep(clock, 0);
    }
  }

  #streamsOf(tenant: number): Streams {
    const at = startOf('minute', this.#deps.time.now());
    const { tenants } = this.#minutes.get(at) ?? this.#begin(at);
    const streams: Streams = tenants.get(tenant) ?? new Map();
    if (streams.size === 0) tenants.set(tenant, streams);
    return streams;
  }

  #begin(at: Millis): Minutes {
    if (at <= this.#droppedTo) {
      this.#generation += 1;
      this.#droppedTo = -Infinity;
    }
    const { writer } = this.#deps;
    const name = this.#generation === 0 ? writer : `${writer}-${this.#generation}`;
    const minutes: Minutes = { writer: name, tenants: new Map() };
    this.#minutes.set(at, minutes);
    return minutes;
  }

  #dropOld(): void {
    const { time, settings } = this.#deps;
    const now = time.now();
    for (const at of this.#minutes.keys()) if (now - at > settings.unwrittenMs) this.#drop(at);
  }

  #dropWritten(): void {
    const now = this.#deps.time.now();
    for (const [at, { tenants }] of this.#minutes) {
      if (at + unitMs.minute <= now && changedOf(at, tenants).length === 0) this.#drop(at);
    }
  }

  #drop(at: Millis): void {
    this.#minutes.delete(at);
    this.#droppedTo = Math.max(this.#droppedTo, at);
  }
}

/** Returns what the store lacks. */
function changedOf(at: Millis, tenants: Minutes['tenants']): Changed[] {
  const changed: Changed[] = [];
  for (const [tenant, streams] of tenants) {
    for (const [stream, minute] of streams) {
      if (minute.isChanged) changed.push({ tenant, stream, at, minute });
    }
  }
  return changed;
}

interface Changed extends Pick<RecordedMinute, 'tenant' | 'stream' | 'at'> {
  readonly minute: Minute;
}

function minuteOf(streams: Streams, stream: string | undefined): Minute {
  const known = streams.get(stream);
  if (known !== undefined) return known;
  const minute = new Minute();
  streams.set(stream, minute);
  return minute;
}

function count(minute: Minute, attempt: Extract<DeliveryReport, { kind: 'attempt' }>): void {
  const { result, deliveryKind, durationMs, sincePublishedMs } = attempt;
  if (result === 'delivered') minute.delivered += 1;
  else if (result === 'failed') minute.failed += 1;
  else minute.retried += 1;
  minute.duration.add(durationMs);
  const isFirst = deliveryKind === 'first' && result === 'delivered';
  if (isFirst && sincePublishedMs !== undefined) minute.latency.add(sincePublishedMs);
  minute.isChanged = true;
}

/** What is counted during the write is written the next time, and so is all of it after an error. */
async function recordPart(part: readonly Changed[], record: () => Promise<void>): Promise<void> {
  for (const { minute } of part) minute.isChanged = false;
  try {
    await record();
  } catch (error) {
    for (const { minute } of part) minute.isChanged = true;
    throw error;
  }
}
