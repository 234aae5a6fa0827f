import { Worker } from 'node:worker_threads';
import { thread } from '../asset.ts';
import { createTurnQueue } from './turn-queue.ts';
import { Problem } from './problem.ts';
import {
  createEventReader,
  type EventForm,
  type EventRules,
  type SentEvents,
} from './sent-events.ts';
import type { BodyRead, BodyToRead } from './event-thread.ts';

/** Reads bodies of events without holding the event loop. */
export interface EventBodies {
  /** Reads and checks a body. Rejects with a 400 or 413. `bytes` is not to be used afterwards. */
  read(tenant: number, bytes: Uint8Array, form: EventForm): Promise<SentEvents>;
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
 * is to wait.
 */
export function createEventBodies(rules: EventRules): EventBodies {
  const readHere = createEventReader(rules);
  const turn = createTurnBudget(bytesOfTurnMax);
  const ofOneEvent = createThreadReader(rules);
  const ofBatches = createThreadReader(rules);
  return {
    read: async (tenant, bytes, form) => {
      if (bytes.length <= bytesReadHereMax && turn.take(bytes.length)) return readHere(bytes, form);
      const reader = bytes.length <= rules.eventBytesMax ? ofOneEvent : ofBatches;
      return reader.read(tenant, { bytes, form });
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
  const queue = createTurnQueue<BodyToRead, SentEvents>((body) => readBy(started(), body), {
    atOnce: 1,
    ofOwner: 1,
  });
  return {
    read: queue.run,
    close: async () => void (await worker?.terminate()),
  };
}

function readBy(worker: Worker, { bytes, form }: BodyToRead): Promise<SentEvents> {
  return new Promise((resolve, reject) => {
    const onMessage = (answer: BodyRead): void => {
      end();
      if ('events' in answer) resolve(answer);
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
    worker.postMessage({ bytes: own, form }, [own.buffer]);
  });
}

function errorOf(answer: Exclude<BodyRead, SentEvents>): Error {
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
