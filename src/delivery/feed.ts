import type { Clock, Timer } from '../core/clock.ts';
import { spanAt, typesNow } from '../core/subscription.ts';
import type { LogEvent, Offset } from '../core/types.ts';
import type { LogPage, LogStore } from '../store/port.ts';
import { Deque } from './deque.ts';
import type { Patience } from './patience.ts';
import type { Rota } from './rota.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';
import type { Tail } from './tail.ts';

/** Pages read from the store at once. */
const readsMax = 4;
/** Reading goes on for so long before others of the process have their turn. */
const turnMs = 5;
/** Queues of the node hold so many full pages; beyond that each runner reads little at a time. */
const fullPagesMax = 16;
const smallPageBytes = 16_384;

/** Fills the queues of the runners, from memory or from the store. */
export interface Feed {
  /** Pages that are being read, or will be. */
  readonly reads: number;
  /** Events joined the log. */
  appended(tail: Tail<Runner>, events: readonly LogEvent[]): void;
  /** Events up to `head` may have joined the log unheard. */
  skipped(tail: Tail<Runner>, head: Offset): void;
  /** Reads on for a runner whose queue is short, or lets it wait at the head of the log. */
  fill(runner: Runner): void;
  /** An event was taken from the runner's queue. */
  taken(runner: Runner, bodyBytes: number): void;
  /** Empties the queue of a runner: it is read again, or belongs to the disabled time. */
  empty(runner: Runner): void;
  close(): void;
}

export interface FeedDeps {
  readonly log: Pick<LogStore, 'page'>;
  readonly clock: Clock;
  readonly patience: Patience;
  readonly rota: Pick<Rota, 'tell' | 'pump'>;
  readonly settings: Pick<DeliverySettings, 'pageEvents' | 'pageBytes'>;
}

/**
 * A runner at the head of the log is handed each event that it wants as it is appended. One that
 * falls behind leaves the head, costs the publisher nothing from then on, and reads on by itself,
 * ahead of what it sends, until it is back.
 */
export function createFeed(deps: FeedDeps): Feed {
  const { settings, rota } = deps;
  let queuedBytes = 0;
  const reader = createReader(deps, (runner, page) => {
    const before = runner.scannedTo;
    if (page !== undefined) takeIn(runner, page);
    // A log that ends before the head it told of is asked again at the next look, not at once.
    if (page === undefined || runner.scannedTo > before) fill(runner);
    rota.pump();
  });

  const room = (): number => (fullPagesMax * settings.pageBytes - queuedBytes) / 4;
  const pageBytes = (): number => Math.max(smallPageBytes, Math.min(settings.pageBytes, room()));
  /** Half a page is left when the next is asked for; where memory is short, nothing. */
  const isHungry = ({ queue }: Runner): boolean =>
    queue.length <= (room() > smallPageBytes ? settings.pageEvents / 2 : 0);

  const enqueue = (runner: Runner, event: LogEvent): void => {
    if (!runner.enqueue(event)) return;
    queuedBytes += event.body.length;
    rota.tell(runner);
  };
  const takeIn = (runner: Runner, page: LogPage): void => {
    for (const event of page.events) enqueue(runner, event);
    runner.scannedTo = Math.max(runner.scannedTo, page.scannedTo);
  };
  const offer = (runner: Runner, event: LogEvent): void => {
    if (runner.queue.length < settings.pageEvents && room() > 0) return enqueue(runner, event);
    const scannedTo = Math.max(runner.scannedTo, event.offset - 1);
    runner.unfollow();
    runner.scannedTo = scannedTo;
  };
  const follow = (runner: Runner): void => {
    runner.following = true;
    runner.tail.join(runner, typesNow(runner.stream.subscriptions));
  };

  const fill = (runner: Runner): void => {
    const { tail } = runner;
    while (runner.state === 'active' && runner.enabled && !runner.following && isHungry(runner)) {
      if (runner.scannedTo >= tail.head) return follow(runner);
      if (runner.reading) return;
      const { types, upTo } = spanAt(runner.stream.subscriptions, runner.scannedTo + 1);
      if (types.length === 0) runner.scannedTo = Math.min(upTo ?? tail.head, tail.head);
      else if (!tail.covers(runner.scannedTo)) return reader.read(runner, pageBytes());
      else takeIn(runner, tail.read(runner.scannedTo, upTo, types, pageBytes()));
    }
  };
  const skipped = (tail: Tail<Runner>, head: Offset): void => {
    const stoodAt = tail.head;
    for (const runner of tail.skipTo(head)) {
      runner.following = false;
      runner.scannedTo = Math.max(runner.scannedTo, stoodAt);
      fill(runner);
    }
  };

  return {
    get reads() {
      return reader.reads;
    },
    appended: (tail, events) => {
      for (const event of events) {
        if (event.offset <= tail.head) continue;
        if (event.offset > tail.head + 1) skipped(tail, event.offset - 1);
        for (const runner of tail.push(event)) offer(runner, event);
      }
    },
    skipped,
    fill,
    taken: (runner, bodyBytes) => {
      queuedBytes -= bodyBytes;
      if (!runner.following) fill(runner);
    },
    empty: (runner) => {
      runner.scannedTo = runner.position;
      for (let event = runner.queue.shift(); event; event = runner.queue.shift()) {
        queuedBytes -= event.body.length;
      }
    },
    close: reader.close,
  };
}

interface Reader {
  readonly reads: number;
  read(runner: Runner, bytesMax: number): void;
  close(): void;
}

/** Reads pages, few at once, and never for long without a pause: an engine may be synchronous. */
function createReader(
  { log, clock, patience, settings }: FeedDeps,
  done: (runner: Runner, page: LogPage | undefined) => void,
): Reader {
  const waiting = new Deque<{ runner: Runner; bytesMax: number }>();
  let underWay = 0;
  let turn: { readonly startedMs: number; readonly end: Timer } | undefined;
  let closed = false;

  const start = (): void => {
    while (!closed && underWay < readsMax && waiting.length > 0 && isMyTurn()) {
      const next = waiting.shift();
      if (next !== undefined) void read(next.runner, next.bytesMax);
    }
  };
  const isMyTurn = (): boolean => {
    turn ??= {
      startedMs: clock.elapsedMs(),
      end: clock.after(0, () => {
        turn = undefined;
        start();
      }),
    };
    return clock.elapsedMs() - turn.startedMs <= turnMs;
  };
  const read = async (runner: Runner, bytesMax: number): Promise<void> => {
    const { tenant, changes, scannedTo } = runner;
    const { types, upTo } = spanAt(runner.stream.subscriptions, scannedTo + 1);
    const query = { after: scannedTo, upTo, types, take: settings.pageEvents, bytesMax };
    underWay += 1;
    const page = await patience.keepTrying(() => log.page(tenant, query));
    underWay -= 1;
    runner.reading = false;
    // A change since then may have moved the runner or what it wants.
    const isCurrent = runner.changes === changes && runner.scannedTo === scannedTo;
    if (!closed) done(runner, isCurrent ? page : undefined);
    start();
  };

  return {
    get reads() {
      return underWay + waiting.length;
    },
    read: (runner, bytesMax) => {
      runner.reading = true;
      waiting.push({ runner, bytesMax });
      start();
    },
    close: () => {
      closed = true;
      turn?.end.cancel();
    },
  };
}
