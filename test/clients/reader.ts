import type { TestContext } from 'node:test';
import { EventSource } from 'eventsource';
import { waitFor } from '../helpers/leat.ts';

/** The log as the package `eventsource` reads it: its option `fetch` adds the token. */

/** One message with parsed data. */
export interface Read {
  readonly type: string;
  readonly lastEventId: string;
  readonly data: { readonly offset: string; readonly event?: { readonly id: string } };
}

export interface Reader {
  readonly source: EventSource;
  /** The received messages of its types. */
  readonly messages: readonly Read[];
  /** The code of each error, `undefined` for a closed connection. */
  readonly errors: readonly (number | undefined)[];
  /** `Last-Event-ID` of each connection. */
  readonly resumed: readonly (string | undefined)[];
  /** Waits for `count` messages. */
  read(count: number): Promise<readonly Read[]>;
}

export interface ReaderOptions {
  readonly url: string;
  /** The query with its question mark, or empty. */
  readonly query: string;
  readonly types: readonly string[];
  /** Called at each connection. */
  readonly token: () => string;
}

/** Opens the pull as the package recommends, and waits until it is open. */
export async function openReader(
  t: TestContext,
  { url, query, types, token }: ReaderOptions,
): Promise<Reader> {
  const messages: Read[] = [];
  const errors: (number | undefined)[] = [];
  const resumed: (string | undefined)[] = [];
  const source = new EventSource(`${url}/api/v2/events${query}`, {
    fetch: (input, init) => {
      resumed.push(init.headers['Last-Event-ID']);
      return fetch(input, {
        ...init,
        headers: { ...init.headers, authorization: `Bearer ${token()}` },
      });
    },
  });
  t.after(() => source.close());
  for (const type of types) {
    source.addEventListener(type, ({ data, lastEventId }) => {
      messages.push({ type, lastEventId, data: JSON.parse(data) as Read['data'] });
    });
  }
  source.addEventListener('error', ({ code }) => {
    errors.push(code);
  });
  await waitFor('the pull', () => source.readyState === EventSource.OPEN);
  const read = async (count: number): Promise<readonly Read[]> => {
    await waitFor(`${count} messages`, () => messages.length >= count);
    return messages;
  };
  return { source, messages, errors, resumed, read };
}
