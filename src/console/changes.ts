import { signal } from '@preact/signals';
import type { EventSourceMessage } from 'eventsource-parser';
import { after, now } from './clock.ts';
import { refresh } from './queries.ts';
import { RequestFailed } from './request.ts';
import { readServerEvents } from './server-events.ts';
import { sessionEnded } from './session.ts';
import { whileVisible } from './visible.ts';

/**
 * Follows the changes that the service reports and reads again what they concern. All tabs of a browser
 * share one connection, as HTTP/1.1 allows six: the tab that holds a lock reads it and passes changes on
 * to the others.
 */
export function followChanges(): () => void {
  const ending = new AbortController();
  const channel = new BroadcastChannel('leat-changes');
  const began = now();
  let isReading = false;
  // A channel reaches its own origin alone.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  const post = (message: Change | typeof question): void => channel.postMessage(message);
  const pass = (change: Change): void => {
    isReading = change.isCut !== true;
    apply(change);
    post(change);
  };
  channel.addEventListener('message', ({ data }: MessageEvent<Change | typeof question>) => {
    if (data !== question) apply(data);
    else if (isReading) post({ streams: [] });
  });
  post(question);
  void whileVisible(ending.signal, (visible) =>
    navigator.locks.request('leat-changes', { signal: visible }, async () => {
      await readOn(pass, visible, began);
      isReading = false;
    }),
  );
  return () => {
    ending.abort();
    channel.close();
  };
}

/** A tab that has just been opened asks whether changes arrive in another one. */
const question = 'does anybody read?';

/** Whether changes arrive; pages say how old their data are otherwise. `cut`: they did, or should. */
export const connection = signal<'none' | 'live' | 'cut'>('none');

/** What to read again: these streams, or `all`, and what shows the whole tenant. */
interface Change {
  readonly streams: readonly string[];
  readonly all?: boolean;
  readonly overview?: boolean;
  /** Whether changes do not arrive any more; nothing else is given then. */
  readonly isCut?: boolean;
}

/** Paths that show several streams; of the log only those of one event. */
const sums = [
  '/overview',
  '/stream-health',
  '/delivery-groups',
  '/deliveries',
  '/stats/',
  '/event-log/',
];

/** Busy streams report changes every second; a page that moves so often cannot be read. */
const pauseMs = 3_000;
const waiting = new Set<string>();
let isPausing = false;

function apply({ streams, all, overview, isCut }: Change): void {
  // What could not be read while the service was away, and what changed then.
  if (connection.value === 'cut') waiting.add('/');
  connection.value = isCut === true ? 'cut' : 'live';
  if (isCut === true) return;
  for (const id of streams) waiting.add(`/event-streams/${id}`);
  if (all === true) waiting.add('/event-streams/');
  if (overview === true || all === true || streams.length > 0)
    sums.forEach((sum) => waiting.add(sum));
  if (!isPausing) readWaiting();
}

function readWaiting(): void {
  if (waiting.size === 0) return;
  refresh([...waiting], true);
  waiting.clear();
  isPausing = true;
  after(pauseMs, () => {
    isPausing = false;
    readWaiting();
  });
}

const waitMs = { ended: 1_000, failed: 5_000 };

/** Reads the stream of changes, again after each end, until the tab is hidden. */
async function readOn(
  pass: (change: Change) => void,
  visible: AbortSignal,
  began: number,
): Promise<void> {
  const receivers = {
    // What changed before is not reported. A page that was opened just now has read it.
    onOpen: () => pass({ streams: [], all: now() - began > waitMs.ended }),
    onEvent: ({ event, data }: EventSourceMessage) => {
      if (event === 'changed') pass(JSON.parse(data) as Change);
    },
  };
  while (!visible.aborted) {
    const wait = await readServerEvents('/api/v2/changes', visible, receivers).then(
      () => waitMs.ended,
      async (error: unknown) => {
        if (error instanceof RequestFailed && error.status === 401) await sessionEnded();
        if (!visible.aborted) pass({ streams: [], isCut: true });
        return waitMs.failed;
      },
    );
    if (visible.aborted) return;
    await new Promise<void>((resolve) => {
      const cancel = after(wait, resolve);
      visible.addEventListener('abort', () => (cancel(), resolve()));
    });
  }
}
