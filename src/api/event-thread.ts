import { constants, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { Problem } from './problem.ts';
import {
  createEventReader,
  type EventForm,
  type EventRules,
  type SentEvents,
} from './sent-events.ts';

/** The program of the thread that `event-bodies.ts` starts: reads one body after the other. */

/** A body to read. */
export interface BodyToRead {
  readonly bytes: Uint8Array;
  readonly form: EventForm;
}

/** The events of a body, the problem of a bad one, or what went wrong here. */
export type BodyRead =
  SentEvents | { readonly problem: ProblemParts } | { readonly failed: string };

/** A `Problem` as it crosses threads. */
export type ProblemParts = Pick<Problem, 'status' | 'message' | 'errorCode' | 'headers'>;

// The event loop goes first where there are more threads than cores. On Linux each thread has a
// priority of its own (sched(7)); elsewhere this would be that of the whole process.
if (process.platform === 'linux') setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

const readEvents = createEventReader(workerData as EventRules);
parentPort?.on('message', (body: BodyToRead) => {
  const answer = bodyRead(body);
  // The rule takes the port of a thread for a window of a browser.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(answer);
});

function bodyRead({ bytes, form }: BodyToRead): BodyRead {
  try {
    return readEvents(bytes, form);
  } catch (error) {
    if (!(error instanceof Problem)) {
      return { failed: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    }
    const { status, message, errorCode, headers } = error;
    return { problem: { status, message, errorCode, headers } };
  }
}
