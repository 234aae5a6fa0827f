import type { Clock, Millis, Timer } from '../../core/clock.ts';
import {
  type InspectedRequest,
  type InspectorAnswer,
  type InspectorMemory,
  isInspectorOf,
  usualAnswer,
} from '../../core/inspector.ts';
import type { AttemptResult } from '../../core/retry.ts';
import { createBuckets } from '../../core/rate.ts';
import { streamKeyOf } from '../../core/stream-key.ts';
import type { StreamRef } from '../../core/types.ts';
import { LookupFailed } from './egress.ts';
import type { Exchange } from './exchange.ts';
import {
  createInspectorRings,
  type InspectorLimits,
  type InspectorRings,
} from './inspector-memory.ts';

/**
 * The receiver of the streams whose endpoint is their inspector (docs/http-api.md#inspector): keeps
 * their requests in memory and responds as {@link InspectorMemory.setAnswer} says. Timeouts and
 * cancellations are those of the exchange, as with a receiver on the network.
 */
export interface Inspector extends InspectorMemory {
  /** Receives a request, and ends its exchange unless that ends before. */
  post(request: InspectorRequest, exchange: InspectedExchange, timeoutMs: number): void;
  /** Frees the memory of a stream that was deleted. */
  forget(stream: StreamRef): void;
  /** Returns the streams in memory. */
  streams(): readonly StreamRef[];
  /** Returns the bytes in memory. */
  bytes(): number;
  /** Stops the timer. */
  close(): void;
}

/** A request as `WebhookRequest` of the transport has it. */
export interface InspectorRequest {
  readonly tenant: number;
  readonly stream: string;
  readonly origin: string;
  readonly path: string;
  readonly headers: readonly string[];
  /** Name of the header with the authorization. */
  readonly secretHeader: string;
  readonly body: string;
}

/** What the inspector uses of an {@link Exchange}. */
export type InspectedExchange = Pick<
  Exchange,
  | 'ended'
  | 'onRequestStart'
  | 'onResponseStart'
  | 'onResponseData'
  | 'onResponseEnd'
  | 'onResponseError'
>;

export interface InspectorSettings extends InspectorLimits {
  /** Requests that a stream's inspector receives per second, and at once after a pause. */
  readonly perSecond: number;
  /** Longest wait of a request for its turn; one that would wait longer gets 429 at once. */
  readonly waitMaxMs: number;
  /** Interval at which requests that are too old are dropped. */
  readonly expireEveryMs: number;
  /** Streams whose rate is remembered. */
  readonly bucketsMax: number;
}

/** Creates the inspector; it opens no connection and looks up no name. */
export function createInspector(deps: {
  readonly clock: Clock;
  readonly settings: InspectorSettings;
}): Inspector {
  return new MemoryInspector(deps);
}

class MemoryInspector implements Inspector {
  readonly #clock: Clock;
  readonly #settings: InspectorSettings;
  readonly #rings: InspectorRings;
  readonly #buckets: ReturnType<typeof createBuckets>;
  #timer: Timer | undefined;

  constructor({ clock, settings }: Parameters<typeof createInspector>[0]) {
    const { perSecond, bucketsMax } = settings;
    this.#clock = clock;
    this.#settings = settings;
    this.#rings = createInspectorRings(settings);
    this.#buckets = createBuckets({ capacity: perSecond, perSecond }, bucketsMax);
  }

  post(request: InspectorRequest, exchange: InspectedExchange, timeoutMs: number): void {
    if (!isInspectorOf(request.origin, request.stream)) {
      // The API accepts no such endpoint; a stream may have one from before there was an inspector.
      setImmediate(() => exchange.onResponseError(undefined, new LookupFailed('ENOTFOUND')));
      return;
    }
    exchange.onRequestStart();
    const turn = this.#takeTurn(request, Math.min(this.#settings.waitMaxMs, timeoutMs / 2));
    if (turn.isRefused) this.#refuse(exchange, turn.inMs);
    else if (turn.inMs <= 0) this.#receive(request, exchange);
    else this.#after(turn.inMs, exchange, () => this.#receive(request, exchange));
  }

  has(stream: StreamRef): boolean {
    return this.#fresh(stream).has(stream);
  }

  read(stream: StreamRef): ReturnType<InspectorMemory['read']> {
    return this.#fresh(stream).read(stream);
  }

  setAnswer(stream: StreamRef, answer: InspectorAnswer): void {
    this.#rings.setAnswer(stream, answer);
  }

  forget(stream: StreamRef): void {
    this.#rings.forget(stream);
  }

  streams(): readonly StreamRef[] {
    return this.#rings.streams();
  }

  bytes(): number {
    return this.#rings.bytes();
  }

  close(): void {
    this.#timer?.cancel();
  }

  /**
   * Returns how long a request waits for its turn. Requests that come too fast wait in the order of
   * their arrival, as at a slow receiver: a stream has a bounded number of attempts at once, so none
   * of its events becomes a failure because of this rate.
   */
  #takeTurn(
    { tenant, stream }: InspectorRequest,
    waitMaxMs: number,
  ): { readonly inMs: number; readonly isRefused: boolean } {
    const key = streamKeyOf({ tenant, stream });
    const nowMs = this.#clock.elapsedMs();
    const { openInMs } = this.#buckets.peek(key, nowMs);
    const isRefused = openInMs > waitMaxMs;
    if (!isRefused) this.#buckets.spend(key, 1, nowMs);
    return { inMs: openInMs, isRefused };
  }

  #refuse(exchange: InspectedExchange, openInMs: number): void {
    const retryAfter = String(Math.ceil(openInMs / 1000));
    const text = `The inspector receives ${this.#settings.perSecond} requests per second of a stream.`;
    this.#after(0, exchange, () => {
      exchange.onResponseStart(undefined, 429, { 'retry-after': retryAfter });
      exchange.onResponseData(undefined, Buffer.from(text));
      exchange.onResponseEnd();
    });
  }

  #receive(request: InspectorRequest, exchange: InspectedExchange): void {
    const { tenant, stream } = request;
    const received = new ReceivedRequest(request, this.#clock.now());
    // It takes no connection, so the node is not short of anything for it.
    void exchange.ended.then(
      (result) => (received.result = result.kind === 'shortage' ? undefined : result),
    );
    const rings = this.#fresh({ tenant, stream });
    const { status, delayMs } = rings.takeAnswer({ tenant, stream }) ?? usualAnswer;
    rings.add({ tenant, stream }, received, this.#clock.elapsedMs());
    this.#timer ??= this.#expireLater();
    this.#after(delayMs, exchange, () => {
      exchange.onResponseStart(undefined, status, {});
      exchange.onResponseEnd();
    });
  }

  /** Calls an action later, never in the same turn of the event loop, unless the exchange ends. */
  #after(delayMs: number, exchange: InspectedExchange, action: () => void): void {
    if (delayMs <= 0) {
      setImmediate(action);
      return;
    }
    const timer = this.#clock.after(delayMs, action);
    void exchange.ended.then(() => timer.cancel());
  }

  /** Returns the memory without requests of the stream that are too old. */
  #fresh(stream: StreamRef): InspectorRings {
    this.#rings.expire(this.#clock.elapsedMs(), stream);
    return this.#rings;
  }

  #expireLater(): Timer {
    return this.#clock.after(this.#settings.expireEveryMs, () => {
      this.#rings.expire(this.#clock.elapsedMs());
      this.#timer = this.#rings.streams().length === 0 ? undefined : this.#expireLater();
    });
  }
}

/** A request as its receiver reads it, without the authorization. */
class ReceivedRequest implements InspectedRequest {
  readonly receivedAt: Millis;
  readonly path: string;
  readonly headers: readonly string[];
  readonly body: string;
  /** Set at the end of the attempt. */
  result: AttemptResult | undefined;

  constructor(request: InspectorRequest, receivedAt: Millis) {
    const { origin, path, body } = request;
    const host = origin.slice(origin.indexOf('//') + 2);
    const length = String(Buffer.byteLength(body));
    this.receivedAt = receivedAt;
    this.path = path;
    this.headers = ['host', host, 'content-length', length, ...shownHeaders(request)];
    this.body = body;
  }
}

/** Returns headers as they are read, with `***` for the authorization. */
function shownHeaders({ headers, secretHeader }: InspectorRequest): string[] {
  const secret = ['authorization', secretHeader.toLowerCase()];
  return headers.map((text, index) => {
    if (index % 2 === 0) return text;
    if (secret.includes(headers[index - 1]?.toLowerCase() ?? '')) return '***';
    return Buffer.from(text, 'latin1').toString('utf8');
  });
}
