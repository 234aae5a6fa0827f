import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { MIB } from '../../core/units.ts';

export type { EventSourceMessage };

/** An event of 256 KiB with its escapes fits many times. */
const eventCharactersMax = 8 * MIB;

/**
 * Yields the server-sent events of a response body (HTML Living Standard, section 9.2), each with the
 * last id that was sent; an event that is cut off at the end is dropped. Calls `onRetry` when the
 * server sets the reconnection time. Throws `RangeError` when an event is too long.
 */
export async function* readEventStream(
  chunks: AsyncIterable<Uint8Array>,
  onRetry: (retryMs: number) => void,
): AsyncGenerator<EventSourceMessage> {
  const events: EventSourceMessage[] = [];
  let id: string | undefined;
  const parser = createParser({
    maxBufferSize: eventCharactersMax,
    onId: (last) => {
      id = last;
    },
    onEvent: (event) => events.push({ ...event, id }),
    onRetry,
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') throw new RangeError('an event is too long');
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* events.splice(0);
  }
}
