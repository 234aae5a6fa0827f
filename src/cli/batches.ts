import type { Clock } from '../core/clock.ts';
import { MIB } from '../core/units.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { readJson } from './json.ts';

/** The events of one request, and the lines they were read from (1-indexed). */
export interface Batch {
  readonly events: readonly Record<string, unknown>[];
  readonly lines: readonly number[];
}

const eventsMax = 1000;
/** A request may have 4 MiB; ids and punctuation are added to the lines. */
const bytesMax = 3 * MIB;
/** How long the first event of a batch waits for more, which a program may write without an end. */
const waitMs = 1000;

/**
 * Yields lines of NDJSON in batches that fit one request, in order; skips empty lines. A batch ends a
 * second after its first line at the latest. Throws {@link CommandFailed} at a line that is not a JSON
 * object, after the batches before it.
 */
export async function* batchesOf(
  lines: AsyncIterable<string>,
  clock: Pick<Clock, 'after'>,
): AsyncGenerator<Batch> {
  const reader = createReader(lines, clock);
  let events: Record<string, unknown>[] = [];
  let numbers: number[] = [];
  let bytes = 0;
  let number = 0;
  for (;;) {
    const read = await reader.next();
    if (read === 'late') {
      yield { events, lines: numbers };
      [events, numbers, bytes] = [[], [], 0];
      continue;
    }
    if (read.done === true) break;
    const text = read.value;
    number++;
    if (text.trim() === '') continue;
    const event = eventIn(text);
    const size = Buffer.byteLength(text);
    const isFull = events.length === eventsMax || bytes + size > bytesMax;
    if ((isFull || event === undefined) && events.length > 0) {
      yield { events, lines: numbers };
      [events, numbers, bytes] = [[], [], 0];
      reader.stopWaiting();
    }
    if (event === undefined) throw invalidLine(number);
    if (events.length === 0) reader.waitForMore();
    events.push(event);
    numbers.push(number);
    bytes += size;
  }
  reader.stopWaiting();
  if (events.length > 0) yield { events, lines: numbers };
}

/** Reads lines; after `waitForMore` it returns `late` once when none came in time. */
function createReader(lines: AsyncIterable<string>, clock: Pick<Clock, 'after'>) {
  const iterator = lines[Symbol.asyncIterator]();
  let pending: Promise<IteratorResult<string>> | undefined;
  let late: Promise<'late'> | undefined;
  let cancel = (): void => undefined;
  const stopWaiting = (): void => {
    cancel();
    late = undefined;
  };
  return {
    next: async (): Promise<IteratorResult<string> | 'late'> => {
      if (pending === undefined) {
        pending = iterator.next();
        // It may be rejected while a batch is sent; the next call reports that.
        pending.catch(() => undefined);
      }
      const read = await (late === undefined ? pending : Promise.race([pending, late]));
      if (read === 'late') late = undefined;
      else pending = undefined;
      return read;
    },
    waitForMore: (): void => {
      late = new Promise((resolve) => {
        const timer = clock.after(waitMs, () => resolve('late'));
        cancel = () => timer.cancel();
      });
    },
    stopWaiting,
  };
}

function eventIn(text: string): Record<string, unknown> | undefined {
  try {
    const value = readJson(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function invalidLine(line: number): CommandFailed {
  const example = '{"type": "order.paid", "data": {"object": {}}}';
  return new CommandFailed(
    exitCodes.failed,
    `Line ${line} of the input is not a JSON object; an event is one line, for example ${example}`,
  );
}
