/** One event of a stream of server-sent events (HTML Standard, section 9.2). */
export interface ServerSentEvent {
  /** `message` when the stream does not say. */
  readonly event: string;
  /** The last id that was sent, of this event or an earlier one; empty at first. */
  readonly id: string;
  readonly data: string;
}

/** Reads a stream of server-sent events piece by piece. */
export interface SseReader {
  /** The events that are complete with this piece. Throws `RangeError` when one grows too long. */
  read(piece: string): ServerSentEvent[];
  /** The wait before a reconnection that the stream asks for. */
  readonly retryMs: number | undefined;
}

/** An event of 256 KiB with its escapes fits many times. */
const eventCharactersMax = 8 * 1024 * 1024;

/** A reader for the pieces of one connection. */
export function createSseReader(): SseReader {
  let rest = '';
  let event = '';
  let data: string[] = [];
  let id = '';
  let retryMs: number | undefined;
  const take = (line: string): ServerSentEvent | undefined => {
    if (line === '') {
      const complete = { event: event || 'message', id, data: data.join('\n') };
      const isEmpty = data.length === 0;
      [event, data] = ['', []];
      return isEmpty ? undefined : complete;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') event = value;
    else if (field === 'data') data.push(value);
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^[0-9]+$/.test(value)) retryMs = Number(value);
    return undefined;
  };
  return {
    get retryMs() {
      return retryMs;
    },
    read: (piece) => {
      rest += piece;
      // A carriage return at the end may be the first half of a line end.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? '';
      const length = data.reduce((sum, line) => sum + line.length, rest.length);
      if (length > eventCharactersMax) throw new RangeError('an event is too long');
      return lines.map(take).filter((one) => one !== undefined);
    },
  };
}
