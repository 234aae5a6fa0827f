import assert from 'node:assert/strict';
import {
  MessageChannel,
  receiveMessageOnPort,
  Worker,
  type MessagePort,
} from 'node:worker_threads';
import { thread } from '../core/asset.ts';
import { codeOf } from '../core/errors.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import { createTurnQueue } from './http/turn-queue.ts';
import { Problem, unavailable } from './http/problem.ts';
import {
  type BodyToRead,
  createEventReader,
  type EventRules,
  type SentEvent,
  type SentEvents,
} from './sent-events.ts';
import type { BodyRead, BodySent, EventsRead } from './event-thread.ts';

/** Reads bodies of events without blocking the event loop. */
export interface EventBodies {
  /**
   * Reads and checks a body, and returns the result of `use` with its events. Rejects with a 400 or 413.
   * Do not use its `bytes` afterwards: its memory may move to a thread.
   */
  read<R>(tenant: number, body: BodyToRead, use: (sent: SentEvents) => Promise<R>): Promise<R>;
  /** Terminates the threads; rejects bodies that wait for one. */
  close(): Promise<void>;
}

/** Longer bodies go to a thread: reading one here could take more than some 5 ms. */
const bytesReadHereMax = 16 * 1024;

/** Bytes read here in one turn of the event loop; further bodies go to a thread. */
const bytesOfTurnMax = 64 * 1024;

/**
 * Creates the reader. Small bodies are read immediately, others in a thread that starts with the first
 * of them. A thread reads one body at a time, and tenants take turns. Bodies longer than one event have
 * a second thread, so that single events do not wait for batches: one of 4 MiB can take a second. Each
 * tenant has one batch in use at a time, which bounds the heap: collecting 100 MiB of events as garbage
 * stops the process for 30 ms.
 */
export function createEventBodies(rules: EventRules): EventBodies {
  const readHere = createEventReader(rules);
  const turn = createTurnBudget(bytesOfTurnMax);
  const ofOneEvent = createThreadReader(rules);
  const ofBatches = createThreadReader(rules);
  const batches = createTurnQueue({ atOnce: Infinity, ofOwner: 1 });
  return {
    read: async (tenant, body, use) => {
      const { length } = body.bytes;
      if (length <= bytesReadHereMax && turn.take(length)) return use(readHere(body));
      if (length <= rules.eventBytesMax) return use(await ofOneEvent.read(tenant, body));
      return batches.run(tenant, async () => use(await ofBatches.read(tenant, body)));
    },
    close: async () => void (await Promise.all([ofOneEvent.close(), ofBatches.close()])),
  };
}

/** Creates a budget for each turn of the event loop. */
function createTurnBudget(max: number): { take(amount: number): boolean } {
  let left = max;
  return {
    take: (amount) => {
      if (amount > left) return false;
      // The first take of a turn schedules the reset for the next turn.
      if (left === max) {
        setImmediate(() => {
          left = max;
        });
      }
      left -= amount;
      return true;
    },
  };
}

/** Creates a reader that uses a thread, for one body at a time. */
function createThreadReader(rules: EventRules): {
  read(tenant: number, body: BodyToRead): Promise<SentEvents>;
  close(): Promise<void>;
} {
  let worker: Worker | undefined;
  const started = (): Worker => {
    if (worker !== undefined) return worker;
    const program = thread('api/event-thread.ts');
    const made = new Worker(program.source, { eval: program.eval, workerData: rules });
    made.unref();
    // `readEvents` rejects for the body that was being read.
    made.on('error', () => {});
    made.once('exit', () => {
      if (worker === made) worker = undefined;
    });
    worker = made;
    return made;
  };
  const queue = createTurnQueue({ atOnce: 1, ofOwner: 1 });
  return {
    read: (tenant, body) => queue.run(tenant, () => readBy(started(), body)),
    close: async () => void (await worker?.terminate()),
  };
}

/** Reads a body in a thread. Its events arrive on a separate port, so that bodies cannot be confused. */
async function readBy(worker: Worker, body: BodyToRead): Promise<SentEvents> {
  const { port1, port2 } = new MessageChannel();
  try {
    const { isArray, parts } = await readEvents(worker, body, port2);
    return { isArray, events: await takeParts(port1, parts) };
  } finally {
    port1.close();
  }
}

/** Sends a body to the thread; resolves when all of its events have been sent to the port. */
function readEvents(worker: Worker, body: BodyToRead, events: MessagePort): Promise<EventsRead> {
  return new Promise((resolve, reject) => {
    const onMessage = (result: BodyRead): void => {
      end();
      if ('parts' in result) resolve(result);
      else reject(errorOf(result));
    };
    const onEnd = (cause: unknown): void => {
      end();
      const isShort = codeOf(cause) === 'ERR_WORKER_INIT_FAILED';
      reject(
        isShort ? noThread() : new Error('The thread that reads bodies has ended.', { cause }),
      );
    };
    const end = (): void =>
      void worker.off('message', onMessage).off('error', onEnd).off('exit', onEnd);
    worker.on('message', onMessage).on('error', onEnd).on('exit', onEnd);
    const transferable = transferableBytes(body.bytes);
    const sent: BodySent = { ...body, bytes: transferable, events };
    worker.postMessage(sent, [transferable.buffer, events]);
  });
}

/** The system has no file descriptors or memory for a thread: nothing was stored. */
function noThread(): Problem {
  const message = 'The server is short of file descriptors or memory. Try again later.';
  return unavailable(message);
}

/** Receives events and yields after each part: deserializing 4 MiB takes some 10 ms. */
async function takeParts(port: MessagePort, count: number): Promise<SentEvent[]> {
  const parts: SentEvent[][] = [];
  while (parts.length < count) {
    if (parts.length > 0) await yieldToEventLoop();
    const received = receiveMessageOnPort(port);
    assert.ok(received, 'The thread sends its events before its result.');
    parts.push(received.message);
  }
  return parts.flat();
}

function errorOf(result: Exclude<BodyRead, EventsRead>): Error {
  if ('failed' in result) return new Error(result.failed);
  const { status, message, errorCode, headers } = result.problem;
  return new Problem(status, message, errorCode, headers);
}

/** Returns bytes that can be transferred: copies a small buffer, whose memory is shared with others. */
function transferableBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}
