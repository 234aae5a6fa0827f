import { signal } from '@preact/signals';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { EventLogShown } from '../schemas/event-log.ts';
import { after, now } from './clock.ts';
import type { Matcher } from './filter-match.ts';
import { preview } from './parts/plain-text.ts';
import { failureOf, parseKeepingNumbers, RequestFailed, send } from './request.ts';
import { sessionEnded } from './session.ts';
import { arrived, noRows, released, type TailRow, type TailRows } from './tail-rows.ts';

/** Whether new events arrive. */
export type TailState =
  | { readonly kind: 'connecting' | 'live' | 'hidden' }
  /** Waits for its next try. */
  | { readonly kind: 'cut off'; readonly reason: string; readonly at: number }
  /** Cannot go on. */
  | { readonly kind: 'failed'; readonly error: unknown };

/** What was not seamless. */
export interface TailBreak {
  readonly at: number;
  readonly reason: string;
  /** Whether events may be left out, because the log does not have them any more. */
  readonly hasGap: boolean;
}

interface TailOptions {
  readonly types: readonly string[];
  /** A condition over the envelope as JSON text, applied here: the server has none for a pull. */
  readonly filter: string | undefined;
}

/** Rows are drawn at most so often. */
const drawMs = 250;
const retryMs = [1_000, 2_000, 5_000, 10_000, 30_000];

/**
 * Follows the log from its present end. Its connection is there only while the tab is visible; after each
 * end it goes on behind the last event that it has received.
 */
export class EventTail {
  readonly state = signal<TailState>({ kind: 'connecting' });
  readonly rows = signal<TailRows>(noRows);
  readonly isPaused = signal(false);
  /** Events of the chosen types that arrived, whether or not they match the condition. */
  readonly received = signal(0);
  /** Of these, the events that match it. */
  readonly matched = signal(0);
  /** The newest break, once it is over. */
  readonly lastBreak = signal<TailBreak | undefined>(undefined);
  readonly #types: readonly string[];
  readonly #filterText: string | undefined;
  readonly #ending = new AbortController();
  #matches: Matcher | undefined;
  /** Up to here it has everything. */
  #offset: string | undefined;
  /** Whether the next connection goes on from the offset. */
  #hasBegun = false;
  #failures = 0;
  #waiting: TailRow[] = [];
  #isDrawing = false;

  constructor({ types, filter }: TailOptions) {
    this.#types = types;
    this.#filterText = filter;
    void whileVisible(this.#ending.signal, async (visible) => {
      await this.#run(visible);
      if (this.state.value.kind !== 'failed') this.state.value = { kind: 'hidden' };
    });
  }

  pause(isPaused: boolean): void {
    this.isPaused.value = isPaused;
    if (!isPaused) this.release();
  }

  /** Shows what waits, and stays paused. */
  release(): void {
    this.rows.value = released(this.rows.value);
  }

  /** Ends the connection. */
  close(): void {
    this.#ending.abort();
  }

  async #run(visible: AbortSignal): Promise<void> {
    while (!visible.aborted) {
      if (this.state.value.kind !== 'cut off') this.state.value = { kind: 'connecting' };
      try {
        await this.#begin(visible);
        await this.#read(visible);
      } catch (error) {
        if (visible.aborted) return;
        if (isFinal(error)) {
          this.state.value = { kind: 'failed', error };
          if (error instanceof RequestFailed && error.status === 401) await sessionEnded();
          return;
        }
        this.#cutOff(error);
      }
      await wait(retryMs[Math.min(this.#failures, retryMs.length) - 1] ?? 0, visible);
    }
  }

  /** Parses the condition, and finds the end of the log, so that nothing is left out from there on. */
  async #begin(visible: AbortSignal): Promise<void> {
    if (this.#hasBegun) return;
    if (this.#filterText !== undefined) this.#matches = await readMatcher(this.#filterText);
    const { events } = await send<EventLogShown>(
      { method: 'GET', path: '/event-log?take=1' },
      { signal: visible },
    );
    this.#offset = events[0]?.offset;
    this.#hasBegun = true;
  }

  /** Reads one connection until its end. Throws where that is not the usual one. */
  async #read(visible: AbortSignal): Promise<void> {
    await readServerEvents(this.#url(), visible, {
      onOpen: () => this.#resumed(),
      onEvent: (message) => this.#take(message),
    });
  }

  #url(): string {
    const query = new URLSearchParams(this.#types.map((type) => ['event_type', type]));
    if (this.#offset !== undefined) query.set('from', this.#offset);
    return `/api/v2/events?${query.toString()}`;
  }

  #resumed(): void {
    const { value } = this.state;
    if (value.kind === 'cut off') {
      this.lastBreak.value = { at: value.at, reason: value.reason, hasGap: false };
    }
    this.#failures = 0;
    this.state.value = { kind: 'live' };
  }

  #take({ event, data }: EventSourceMessage): void {
    if (event === 'error') throw new PullEnded(JSON.parse(data) as PullErrorFrame);
    const frame = parseKeepingNumbers(data) as PullFrame;
    this.#offset = frame.offset;
    if (frame.event === undefined) return;
    this.received.value += 1;
    if (this.#matches?.(JSON.stringify(frame.event)) === false) return;
    this.matched.value += 1;
    const { id, type, time } = frame.event;
    const row = { id, type, time, offset: frame.offset, preview: preview(frame.event.data) };
    this.#waiting.push(row);
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    after(drawMs, () => this.#draw());
  }

  #draw(): void {
    this.#isDrawing = false;
    this.rows.value = arrived(this.rows.value, this.#waiting, this.isPaused.value);
    this.#waiting = [];
  }

  #cutOff(error: unknown): void {
    this.#failures += 1;
    const { value } = this.state;
    const at = value.kind === 'cut off' ? value.at : now();
    const reason = reasonOf(error);
    if (isExpired(error)) {
      // From there on the log has removed events: it goes on with its present end.
      this.#hasBegun = false;
      this.lastBreak.value = { at, reason, hasGap: true };
      this.state.value = { kind: 'connecting' };
    } else {
      this.state.value = { kind: 'cut off', reason, at };
    }
  }
}

interface PullFrame {
  readonly offset: string;
  readonly event?: {
    readonly id: string;
    readonly type: string;
    readonly time: string;
    readonly data: unknown;
  };
}

interface PullErrorFrame {
  readonly error: { readonly code: string; readonly message: string };
}

/** The last frame of a pull that cannot go on. */
class PullEnded extends Error {
  readonly code: string;

  constructor({ error: { code, message } }: PullErrorFrame) {
    super(message);
    this.code = code;
  }
}

async function readMatcher(text: string): Promise<Matcher> {
  const { matcherOf } = await import('./filter-match.ts');
  const matcher = matcherOf(text);
  if ('matches' in matcher) return matcher.matches;
  throw new RequestFailed(400, matcher.problem);
}

/** Returns whether trying again cannot help. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof RequestFailed)) return false;
  return [400, 401, 403].includes(error.status) && error.code !== 'too_many_connections';
}

function isExpired(error: unknown): boolean {
  if (error instanceof PullEnded) return error.code === 'cursor_expired';
  return error instanceof RequestFailed && error.status === 410;
}

function reasonOf(error: unknown): string {
  if (error instanceof RequestFailed || error instanceof PullEnded) return error.message;
  return 'The connection broke.';
}

async function wait(delayMs: number, ending: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const cancel = after(delayMs, resolve);
    ending.addEventListener('abort', () => (cancel(), resolve()));
  });
}

/** Longer than two heartbeats of the server (15 s). */
const silenceMs = 40_000;

interface Receivers {
  readonly onOpen: () => void;
  readonly onEvent: (message: EventSourceMessage) => void;
}

/**
 * Reads server-sent events until the server ends the response, which it does after some minutes. Throws
 * when it is refused or breaks, and when nothing arrives for so long that it must have broken.
 */
async function readServerEvents(
  url: string,
  ending: AbortSignal,
  { onOpen, onEvent }: Receivers,
): Promise<void> {
  const silence = new AbortController();
  const response = await fetch(url, {
    signal: AbortSignal.any([ending, silence.signal]),
    credentials: 'same-origin',
    cache: 'no-store',
  });
  if (!response.ok || response.body === null) {
    throw failureOf(response, await response.text());
  }
  onOpen();
  const parser = createParser({ onEvent });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const cancel = after(silenceMs, () => silence.abort());
    const { done, value } = await reader.read().finally(cancel);
    if (done) return;
    parser.feed(value);
  }
}

/** Runs work while the tab is visible, again after each time it was hidden. */
async function whileVisible(
  ending: AbortSignal,
  work: (visible: AbortSignal) => Promise<unknown>,
): Promise<void> {
  while (!ending.aborted) {
    await visibility(true, ending);
    const hidden = new AbortController();
    const stop = (): void => hidden.abort();
    ending.addEventListener('abort', stop);
    void visibility(false, ending).then(stop);
    await work(hidden.signal).catch(() => undefined);
    ending.removeEventListener('abort', stop);
    await visibility(false, ending);
  }
}

async function visibility(isVisible: boolean, ending: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const check = (): void => {
      if (ending.aborted || document.hidden !== isVisible) {
        document.removeEventListener('visibilitychange', check);
        ending.removeEventListener('abort', check);
        resolve();
      }
    };
    document.addEventListener('visibilitychange', check);
    ending.addEventListener('abort', check);
    check();
  });
}
