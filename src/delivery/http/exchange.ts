import { StringDecoder } from 'node:string_decoder';
import type { SendResult } from '../../core/retry.ts';
import {
  InvalidResponse,
  classifyTransportError,
  type Phase,
  shortageOf,
} from './transport-error.ts';
import type { Deadlines } from './deadlines.ts';

/** The connection of an exchange. */
export interface ExchangeConnection {
  phase: Phase;
  /** The exchange that uses it at present. */
  exchange: Exchange | undefined;
  /** The first error of its socket: later ones follow from it. */
  readonly error: Error | undefined;
  /** The request is about to be written. */
  begin(): void;
  /** Makes it available for the next request. */
  release(): void;
  /** Ends it: it cannot be used again. */
  drop(): void;
}

export interface ExchangeDeps {
  /** Bytes of a body that are read; then the connection is dropped and the status decides. */
  readonly bodyBytesMax: number;
  /** Bytes of it that are kept as text. */
  readonly textBytesMax: number;
  readonly deadlines: Pick<Deadlines<Exchange>, 'pause' | 'resume' | 'delete'>;
}

/**
 * One request and its response: the handler that undici calls, and the pending request that the
 * caller waits for. A class, and one object for both, because one is created for every attempt.
 */
export class Exchange {
  readonly ended: Promise<SendResult>;
  /** Set once it has one. */
  connection: ExchangeConnection | undefined;
  waitedMs = 0;
  readonly #deps: ExchangeDeps;
  #resolve: (result: SendResult) => void = ignore;
  #isOver = false;
  #status = 0;
  #retryAfter: string | undefined;
  #bodyBytes = 0;
  #text: Buffer[] = [];
  #textBytes = 0;
  /** Bytes the connection had carried before this exchange. */
  #wireBytesBefore: number | undefined;

  constructor(deps: ExchangeDeps) {
    this.#deps = deps;
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  cancel(): void {
    this.cutOff('cancelled');
  }

  /** Ends it at once, in any state. */
  cutOff(cause: 'timeout' | 'cancelled'): void {
    this.#end({ kind: 'error', cause, detail: undefined }, false);
  }

  /** Stops its time, for a wait that is not the receiver's. */
  pause(): void {
    if (!this.#isOver) this.#deps.deadlines.pause(this);
  }

  /** Starts its time again from the beginning. */
  resume(waitedMs: number): void {
    if (this.#isOver) return;
    this.waitedMs += waitedMs;
    this.#deps.deadlines.resume(this);
  }

  /**
   * Bounds the bytes of the response on the wire; called whenever data arrives. The body has its
   * own bound; this one is for interim responses, blank lines before a response and chunk
   * extensions, which the parser accepts without limit.
   */
  countWire(bytesRead: number): void {
    this.#wireBytesBefore ??= bytesRead;
    const bytes = bytesRead - this.#wireBytesBefore;
    if (bytes < this.#deps.bodyBytesMax * wireFactorMax) return;
    if (this.#status > 0) this.#respond(false);
    else this.onResponseError(undefined, new InvalidResponse('too many bytes before the answer'));
  }

  // Called by undici

  onRequestStart(): void {
    this.connection?.begin();
  }

  onResponseStart(
    _controller: unknown,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    // Interim responses (1xx) come before the final one.
    if (status < 200) return;
    this.#status = status;
    if (this.connection !== undefined) this.connection.phase = 'receiving';
    const retryAfter = headers['retry-after'];
    this.#retryAfter = typeof retryAfter === 'string' ? retryAfter : retryAfter?.[0];
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    this.#bodyBytes += chunk.length;
    const room = this.#deps.textBytesMax - this.#textBytes;
    if (room > 0) {
      const kept = chunk.length > room ? chunk.subarray(0, room) : chunk;
      this.#text.push(kept);
      this.#textBytes += kept.length;
    }
    if (this.#bodyBytes >= this.#deps.bodyBytesMax) this.#respond(false);
  }

  onResponseEnd(): void {
    this.#respond(true);
  }

  onResponseError(_controller: unknown, error: unknown): void {
    if (this.#isOver) return;
    const phase = this.connection?.phase ?? 'sent';
    const first = this.connection?.error ?? error;
    this.#end(shortageOf(first) ?? classifyTransportError(first, phase), false);
  }

  #respond(isComplete: boolean): void {
    const { text, cut } = this.#readText();
    const response = { kind: 'response', status: this.#status, text } as const;
    const retryAfter = this.#retryAfter;
    this.#end(cut ? { ...response, cut, retryAfter } : { ...response, retryAfter }, isComplete);
  }

  #readText(): { text: string; cut: boolean } {
    if (this.#textBytes === 0) return { text: '', cut: false };
    const [first] = this.#text;
    const bytes = this.#text.length === 1 && first ? first : Buffer.concat(this.#text);
    const cut = this.#bodyBytes > this.#textBytes;
    // Omits a character that was cut in two; it would hide the end of a cut secret.
    const text = cut ? new StringDecoder('utf8').write(bytes) : bytes.toString('utf8');
    return { text: text.includes('\0') ? text.replaceAll('\0', '') : text, cut };
  }

  #end(result: SendResult, isReusable: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { connection } = this;
    if (connection !== undefined) {
      connection.exchange = undefined;
      if (isReusable) connection.release();
      else connection.drop();
    }
    this.#deps.deadlines.delete(this);
    // Views of all that the socket had read at once.
    this.#text = [];
    this.#resolve(result);
  }
}

/**
 * A body in chunks of one byte is six times as long on the wire; a response with more is invalid.
 */
const wireFactorMax = 16;

function ignore(): void {}
