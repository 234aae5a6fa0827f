import assert from 'node:assert/strict';
import {
  MessageChannel,
  receiveMessageOnPort,
  Worker,
  type MessagePort,
} from 'node:worker_threads';
import { thread } from '../core/asset.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import { createTurnQueue } from './http/turn-queue.ts';
import { Problem } from './http/problem.ts';
import {
  type BodyToRead,
  createEventReader,
  type EventRules,
  type SentEvent,
  type SentEvents,
} from './sent-events.ts';
import type { BodyRead, BodySent, EventsRead } from './event-thread.ts';

/** Reads bodies of events without holding the event loop. */
export interface EventBodies {
  /**
   * Reads and checks a body, and settles as `use` does with its events. Rejects with a 400 or 413.
   * `bytes` is not to be used afterwards.
   */
  read<R>(
    tenant: number,
    { bytes, form }: BodyToRead,
    use: (sent: SentEvents) => Promise<R>,
  ): Promise<R>;
  /** Ends the threads; a body that waits for one is rejected. */
  close(): Promise<void>;
}

/** A longer body is read in the thread: reading it here could take more than some 5 ms. */
const bytesReadHereMax = 16 * 1024;

/** Bodies read here in one turn of the event loop; the thread gets what is more. */
const bytesOfTurnMax = 64 * 1024;

/**
 * Creates the reader. Small bodies are read at once. Others go to a thread, which is started for the
 * first of them; it reads one body at a time, and tenants take turns. Bodies that are longer than an
 * event may be have a thread of their own: of 4 MiB one can take a second, for which no single event
 * is to wait. Of each tenant one of those is used at a time: what it holds of the heap is free again soon,
 * and a garbage collection that ends 100 MiB of such events stops everybody for 30 ms.
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

/** What may still be done in this turn of the event loop. */
function createTurnBudget(max: number): { take(amount: number): boolean } {
  let left = max;
  return {
    take: (amount) => {
      if (amount > left) return false;
      // The first of a turn arranges for the next turn to have all of it again.
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

/** A thread, seen from here; one body is with it at a time. */
function createThreadReader(rules: EventRules): {
  read(tenant: number, body: BodyToRead): Promise<SentEvents>;
  close(): Promise<void>;
} {
  let worker: Worker | undefined;
  const started = (): Worker => {
    if (worker !== undefined) return worker;
    const made = new Worker(thread('api/event-thread.ts'), { workerData: rules });
    made.unref();
    // The caller whose body the thread was reading is told.
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

/** The events come over a port of the body's own, so that none of them can be taken for another's. */
async function readBy(worker: Worker, body: BodyToRead): Promise<SentEvents> {
  const { port1, port2 } = new MessageChannel();
  try {
    const { isArray, parts } = await answerOf(worker, body, port2);
    return { isArray, events: await takeParts(port1, parts) };
  } finally {
    port1.close();
  }
}

/** What the thread says of a body, when the events of it can be taken. */
function answerOf(
  worker: Worker,
  { bytes, form }: BodyToRead,
  events: MessagePort,
): Promise<EventsRead> {
  return new Promise((resolve, reject) => {
    const onMessage = (answer: BodyRead): void => {
      end();
      if ('parts' in answer) resolve(answer);
      else reject(errorOf(answer));
    };
    const onEnd = (cause: unknown): void => {
      end();
      reject(new Error('The thread that reads bodies has ended.', { cause }));
    };
    const end = (): void =>
      void worker.off('message', onMessage).off('error', onEnd).off('exit', onEnd);
    worker.on('message', onMessage).on('error', onEnd).on('exit', onEnd);
    const own = ownBytes(bytes);
    const sent: BodySent = { bytes: own, form, events };
    worker.postMessage(sent, [own.buffer, events]);
  });
}

/** Makes events of what is in memory as bytes, part by part: 4 MiB together take some 10 ms. */
async function takeParts(port: MessagePort, count: number): Promise<SentEvent[]> {
  const parts: SentEvent[][] = [];
  while (parts.length < count) {
    if (parts.length > 0) await yieldToEventLoop();
    const received = receiveMessageOnPort(port);
    assert.ok(received, 'The thread sends its events before it answers.');
    parts.push(received.message);
  }
  return parts.flat();
}

function errorOf(answer: Exclude<BodyRead, EventsRead>): Error {
  if ('failed' in answer) return new Error(answer.failed);
  const { status, message, errorCode, headers } = answer.problem;
  return new Problem(status, message, errorCode, headers);
}

/** Bytes whose memory can be handed over: that of a small buffer is shared with others. */
function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer } = bytes;
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength
    ? new Uint8Array(buffer)
    : new Uint8Array(bytes);
}
