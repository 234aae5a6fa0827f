import { signal } from '@preact/signals';
import { createParser } from 'eventsource-parser';
import { after } from './clock.ts';
import { refresh } from './queries.ts';
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
  channel.addEventListener('message', ({ data }: MessageEvent<Change>) => apply(data));
  const pass = (change: Change): void => {
    apply(change);
    // A channel reaches its own origin alone.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    channel.postMessage(change);
  };
  void whileVisible(ending.signal, (visible) =>
    navigator.locks.request('leat-changes', { signal: visible }, () => readOn(pass, visible)),
  );
  return () => {
    ending.abort();
    channel.close();
  };
}

/** Whether changes arrive; pages say how old their data are otherwise. */
export const isLive = signal(false);

/** What to read again: these streams, or `all`, and what shows the whole tenant. */
interface Change {
  readonly streams: readonly string[];
  readonly all?: boolean;
  readonly overview?: boolean;
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

function apply({ streams, all, overview }: Change): void {
  isLive.value = true;
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

const waitMs = 5_000;

/** Reads the stream of changes, again after each end, until the tab is hidden. */
async function readOn(pass: (change: Change) => void, visible: AbortSignal): Promise<void> {
  while (!visible.aborted) {
    await readOnce(pass, visible).catch(() => undefined);
    isLive.value = false;
    if (visible.aborted) return;
    await new Promise<void>((resolve) => {
      const cancel = after(waitMs, resolve);
      visible.addEventListener('abort', () => (cancel(), resolve()));
    });
  }
}

async function readOnce(pass: (change: Change) => void, visible: AbortSignal): Promise<void> {
  const response = await fetch('/api/v2/changes', { signal: visible, credentials: 'same-origin' });
  if (response.status === 401) await sessionEnded();
  if (!response.ok || response.body === null) return;
  isLive.value = true;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (event === 'changed') pass(JSON.parse(data) as Change);
    },
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    parser.feed(value);
  }
}
