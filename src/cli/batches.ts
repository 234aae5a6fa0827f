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

/**
 * Yields lines of NDJSON in batches that fit one request, in order; skips empty lines. Throws
 * {@link CommandFailed} at a line that is not a JSON object, after the batches before it.
 */
export async function* batchesOf(lines: AsyncIterable<string>): AsyncGenerator<Batch> {
  let events: Record<string, unknown>[] = [];
  let numbers: number[] = [];
  let bytes = 0;
  let number = 0;
  for await (const text of lines) {
    number++;
    if (text.trim() === '') continue;
    const event = eventIn(text);
    const size = Buffer.byteLength(text);
    const isFull = events.length === eventsMax || bytes + size > bytesMax;
    if ((isFull || event === undefined) && events.length > 0) {
      yield { events, lines: numbers };
      [events, numbers, bytes] = [[], [], 0];
    }
    if (event === undefined) throw invalidLine(number);
    events.push(event);
    numbers.push(number);
    bytes += size;
  }
  if (events.length > 0) yield { events, lines: numbers };
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
