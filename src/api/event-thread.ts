import { constants, setPriority } from 'node:os';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Problem } from './http/problem.ts';
import {
  type BodyToRead,
  createEventReader,
  type EventRules,
  type SentEvent,
} from './sent-events.ts';

/** The program of the thread that `event-bodies.ts` starts: reads one body after the other. */

/** A body, as the thread gets it. */
export interface BodySent extends BodyToRead {
  /** Where its events go, in parts. */
  readonly events: MessagePort;
}

/** A body is read: so many parts of its events have been sent, each an array of `SentEvent`. */
export interface EventsRead {
  readonly isArray: boolean;
  readonly parts: number;
}

/** The end of a body, the problem of a bad one, or what went wrong here. */
export type BodyRead =
  EventsRead | { readonly problem: ProblemParts } | { readonly failed: string };

/** A `Problem` as it crosses threads. */
export type ProblemParts = Pick<Problem, 'status' | 'message' | 'errorCode' | 'headers'>;

// The event loop goes first where there are more threads than cores. On Linux each thread has a
// priority of its own (sched(7)); elsewhere this would be that of the whole process.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

const readEvents = createEventReader(workerData as EventRules);
parentPort?.on('message', (body: BodySent) => {
  const answer = bodyRead(body);
  // The rule takes the port of a thread for a window of a browser.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(answer);
});

/** Events of one part, in characters: as much as is taken at once on the other side. */
const partMax = 128 * 1024;
/** What an event takes beside its data. */
const eventChars = 100;

function bodyRead({ events, ...body }: BodySent): BodyRead {
  try {
    const sent = readEvents(body);
    const parts = partsOf(sent.events);
    // The rule takes the port of a thread for a window of a browser.
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

/** At least one event each, and others as long as there is room. */
function partsOf(sent: readonly SentEvent[]): SentEvent[][] {
  const parts: SentEvent[][] = [];
  let room = 0;
  for (const event of sent) {
    const length = eventChars + (event.dataJson ?? '').length;
    if (parts.length === 0 || length > room) {
      parts.push([]);
      room = partMax;
    }
    parts.at(-1)?.push(event);
    room -= length;
  }
  return parts;
}
