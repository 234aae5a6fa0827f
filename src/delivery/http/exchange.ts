import { StringDecoder } from 'node:string_decoder';
import type { AttemptResult } from '../../core/retry.ts';
import { InvalidResponse, classifyTransportError, type Phase } from './transport-error.ts';
import type { Deadlines } from './deadlines.ts';

/** The connection that an exchange uses. */
export interface ExchangeConnection {
  phase: Phase;
  /** The exchange that uses it now. */
  exchange: Exchange | undefined;
  /** It can carry the next request. */
  release(): void;
  /** It is of no use any more. */
  drop(): void;
}

export interface ExchangeDeps {
  /** Read of a body; at that many bytes the status decides. */
  readonly bodyBytesMax: number;
  /** Kept of it as text. */
  readonly textBytesMax: number;
  readonly deadlines: Pick<Deadlines<Exchange>, 'pause' | 'resume' | 'delete'>;
}

/**
 * One request and its answer: the handler that undici calls, and the post that the caller waits
 * for. A class, and one object for both, because it is made for every attempt of every event.
 */
export class Exchange {
  readonly ended: Promise<AttemptResult>;
  /** Set when it has been given one. */
  connection: ExchangeConnection | undefined;
  waitedMs = 0;
  readonly #deps: ExchangeDeps;
  #resolve: (result: AttemptResult) => void = ignore;
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

  /** Ends it at once, whatever it is doing. */
  cutOff(cause: 'timeout' | 'cancelled'): void {
    this.#end({ kind: 'error', cause, detail: undefined }, false);
  }

  /** Its time stands still: it waits for something that is not the receiver's. */
  pause(): void {
    if (!this.#isOver) this.#deps.deadlines.pause(this);
  }

  /** Its time starts again. */
  resume(waitedMs: number): void {
    if (this.#isOver) return;
    this.waitedMs += waitedMs;
    this.#deps.deadlines.resume(this);
  }

  /**
   * Told how much the connection has carried, whenever there is something to read. A body is
   * counted where it comes in; this bounds what is around it: interim answers, blank lines before
   * an answer, chunk extensions, which the parser takes without end.
   */
  countWire(bytesRead: number): void {
    this.#wireBytesBefore ??= bytesRead;
    const bytes = bytesRead - this.#wireBytesBefore;
    if (bytes < this.#deps.bodyBytesMax * wireFactorMax) return;
    if (this.#status > 0) this.#answer(false);
    else this.onResponseError(undefined, new InvalidResponse('too many bytes before the answer'));
  }

  // What undici calls

  onRequestStart(): void {
    if (this.connection !== undefined) this.connection.phase = 'sent';
  }

  onResponseStart(
    _controller: unknown,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    // Interim answers (1xx) come before the answer itself.
    if (status < 200) return;
    this.#status = status;
    if (this.connection !== undefined) this.connection.phase = 'answering';
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
    if (this.#bodyBytes >= this.#deps.bodyBytesMax) this.#answer(false);
  }

  onResponseEnd(): void {
    this.#answer(true);
  }

  onResponseError(_controller: unknown, error: unknown): void {
    if (!this.#isOver)
      this.#end(classifyTransportError(error, this.connection?.phase ?? 'sent'), false);
  }

  #answer(isComplete: boolean): void {
    const { text, cut } = this.#readText();
    const answered = { kind: 'response', status: this.#status, text } as const;
    const retryAfter = this.#retryAfter;
    this.#end(cut ? { ...answered, cut, retryAfter } : { ...answered, retryAfter }, isComplete);
  }

  #readText(): { text: string; cut: boolean } {
    if (this.#textBytes === 0) return { text: '', cut: false };
    const [first] = this.#text;
    const bytes = this.#text.length === 1 && first ? first : Buffer.concat(this.#text);
    const cut = this.#bodyBytes > this.#textBytes;
    // A character that was cut in two is left out; it would hide the end of a cut secret.
    const text = cut ? new StringDecoder('utf8').write(bytes) : bytes.toString('utf8');
    return { text: text.includes('\0') ? text.replaceAll('\0', '') : text, cut };
  }

  #end(result: AttemptResult, isLineUsable: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { connection } = this;
    if (connection !== undefined) {
      connection.exchange = undefined;
      if (isLineUsable) connection.release();
      else {
        connection.drop();
      }
    }
    this.#deps.deadlines.delete(this);
    this.#resolve(result);
  }
}

/** A body in chunks of one byte is six times as long on the wire; more than this is no answer. */
const wireFactorMax = 16;

function ignore(): void {}
