import { constants, setPriority } from 'node:os';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Problem } from './http/problem.ts';
import {
  type BodyToRead,
  createEventReader,
  type EventRules,
  type SentEvent,
} from './sent-events.ts';

/** The program of the threads that `event-bodies.ts` starts: reads one body after the other. */

/** A body for the thread. */
export interface BodySent extends BodyToRead {
  /** Port that receives its events in parts, each an array of `SentEvent`. */
  readonly events: MessagePort;
}

/** The result of a valid body: the number of parts sent to its port. */
export interface EventsRead {
  readonly isArray: boolean;
  readonly parts: number;
}

/** The result of a body: its events were sent, it is invalid, or the thread failed. */
export type BodyRead =
  | EventsRead
  | { readonly problem: ProblemParts }
  | { readonly failed: string };

/** The fields of a `Problem`, which can be cloned between threads. */
export type ProblemParts = Pick<Problem, 'status' | 'message' | 'errorCode' | 'headers'>;

// The event loop has priority if there are more threads than cores. Linux only (sched(7)): elsewhere
// this would set the priority of the whole process.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

const readEvents = createEventReader(workerData as EventRules);
parentPort?.on('message', (body: BodySent) => {
  const result = bodyRead(body);
  // False positive: this is the port of a thread, not a browser window.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(result);
});

/** Characters of the events of one part, which the receiver deserializes without a pause. */
const partCharsMax = 128 * 1024;
/** Characters of an event without its data. */
const eventChars = 100;

function bodyRead({ events, ...body }: BodySent): BodyRead {
  try {
    const sent = readEvents(body);
    const parts = partsOf(sent.events);
    // False positive: this is the port of a thread, not a browser window.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    for (const part of parts) events.postMessage(part);
    return { isArray: sent.isArray, parts: parts.length };
  } catch (error) {
    if (!(error instanceof Problem)) {
      return { failed: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    }
    const { status, message, errorCode, headers } = error;
    return { problem: { status, message, errorCode, headers } };
  }
}

/** Splits events into parts of at least one event and at most {@link partCharsMax}. */
function partsOf(sent: readonly SentEvent[]): SentEvent[][] {
  const parts: SentEvent[][] = [];
  let charsLeft = 0;
  for (const event of sent) {
    const length = eventChars + (event.dataJson ?? '').length;
    if (parts.length === 0 || length > charsLeft) {
      parts.push([]);
      charsLeft = partCharsMax;
    }
    parts.at(-1)?.push(event);
    charsLeft -= length;
  }
  return parts;
}
