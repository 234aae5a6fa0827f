import type { Clock, Timer } from '../core/clock.ts';
import { spanAt } from '../core/subscription.ts';
import type { LogPage, LogStore } from '../store/port.ts';
import { Deque } from './deque.ts';
import type { Patience } from './patience.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/** Pages read from the store at once. */
const readsMax = 4;
/** Reading goes on for so long before others of the process have their turn. */
const turnMs = 5;

/** Reads the log for runners that are behind. */
export interface PageReader {
  /** Pages that are being read, or will be. */
  readonly reads: number;
  /** Reads the runner's next page. */
  want(runner: Runner): void;
  close(): void;
}

export interface PageReaderDeps {
  readonly log: Pick<LogStore, 'page'>;
  readonly clock: Clock;
  readonly patience: Patience;
  readonly settings: Pick<DeliverySettings, 'pageEvents'>;
  /** Characters of bodies that the next page may have. */
  readonly pageBytes: () => number;
  /** The page, unless the runner or what it wants has changed meanwhile. */
  readonly read: (runner: Runner, page: LogPage | undefined) => void;
}

/** See {@link PageReader}. */
export function createPageReader(deps: PageReaderDeps): PageReader {
  return new TurnTakingReader(deps);
}

/**
 * Few pages at once, and never for long without a pause: an engine may be synchronous, and ten
 * thousand runners behind, or one whose events are rare, would hold the process up for seconds.
 */
class TurnTakingReader implements PageReader {
  readonly #deps: PageReaderDeps;
  readonly #waiting = new Deque<Runner>();
  #underWay = 0;
  #turn: { readonly startedMs: number; readonly end: Timer } | undefined;
  #isClosed = false;

  constructor(deps: PageReaderDeps) {
    this.#deps = deps;
  }

  get reads(): number {
    return this.#underWay + this.#waiting.length;
  }

  want(runner: Runner): void {
    runner.reading = true;
    this.#waiting.push(runner);
    this.#start();
  }

  close(): void {
    this.#isClosed = true;
    this.#turn?.end.cancel();
  }

  #start(): void {
    while (this.#underWay < readsMax && this.#mayRead()) {
      const runner = this.#waiting.shift();
      // What it wants may have changed since, or it is not this node's any more.
      if (runner?.state === 'active') void this.#read(runner);
      else if (runner !== undefined) runner.reading = false;
    }
  }

  #mayRead(): boolean {
    if (this.#isClosed || this.#waiting.length === 0) return false;
    const { clock } = this.#deps;
    this.#turn ??= { startedMs: clock.elapsedMs(), end: clock.after(0, () => this.#nextTurn()) };
    return clock.elapsedMs() - this.#turn.startedMs <= turnMs;
  }

  #nextTurn(): void {
    this.#turn = undefined;
    this.#start();
  }

  async #read(runner: Runner): Promise<void> {
    const { log, patience, settings, pageBytes, read } = this.#deps;
    const { tenant, changes, scannedTo } = runner;
    const { types, upTo } = spanAt(runner.stream.subscriptions, scannedTo + 1);
    const bytesMax = pageBytes();
    const query = { after: scannedTo, upTo, types, take: settings.pageEvents, bytesMax };
    this.#underWay += 1;
    const page = await patience.keepTrying(() => log.page(tenant, query));
    this.#underWay -= 1;
    runner.reading = false;
    const isCurrent = runner.changes === changes && runner.scannedTo === scannedTo;
    if (!this.#isClosed) read(runner, isCurrent ? page : undefined);
    this.#start();
  }
}
