import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { formatOffset, parseOffset } from '../../src/core/offset.ts';
import { waitFor } from './wait.ts';

/** One block of server-sent events: a comment, or fields. */
export interface Block {
  readonly comment: string | undefined;
  readonly event: string | undefined;
  readonly id: string | undefined;
  readonly retry: string | undefined;
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
  readonly data: any;
}

/** A pull over its own connection, read block by block. */
export interface OpenPull {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** Every block so far, including comments. */
  readonly blocks: readonly Block[];
  /** Returns the received text so far. */
  text(): string;
  /** Waits for `count` events, without those of progress and errors. */
  events(count: number): Promise<readonly Block[]>;
  /** Waits until the pull fits. */
  until(fits: (pull: OpenPull) => boolean, what?: string): Promise<void>;
  /** Resolves when the response has ended, with whether it was complete. */
  readonly ended: Promise<'complete' | 'cut'>;
  /** Stops reading the response. */
  pause(): void;
  resume(): void;
  close(): void;
}

/** Opens a pull at a URL, without a token when `headers` have a cookie, and waits for the head of the response. */
export async function openPull(
  url: string,
  token: string | undefined,
  headers: Readonly<Record<string, string>> = {},
): Promise<OpenPull> {
  const request = get(url, {
    agent: false,
    headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
  });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const blocks: Block[] = [];
  let text = '';
  let rest = '';
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    const parts = (rest + chunk).split('\n\n');
    rest = parts.pop() ?? '';
    blocks.push(...parts.map(blockOf));
  });
  const ended = new Promise<'complete' | 'cut'>((resolve) => {
    response
      .on('error', () => {})
      .on('close', () => {
        resolve(response.complete ? 'complete' : 'cut');
      });
  });
  const pull: OpenPull = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    blocks,
    text: () => text,
    ended,
    until: async (fits, what = 'a pull') => {
      const hasArrived = (): boolean => {
        if (fits(pull)) return true;
        if (!response.closed) return false;
        throw new Error(`${what} ended early`);
      };
      const progress = (): number => text.length;
      try {
        await waitFor(what, hasArrived, { progress, intervalMsMax: 20 });
      } catch (error) {
        throw new Error(`${(error as Error).message}: ${text.slice(-500)}`, { cause: error });
      }
    },
    events: async (count) => {
      await pull.until(() => eventsOf(pull).length >= count, `${count} events`);
      return eventsOf(pull);
    },
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    close: () => void request.destroy(),
  };
  return pull;
}

/** Returns the events among the blocks. */
export function eventsOf({ blocks }: Pick<OpenPull, 'blocks'>): Block[] {
  return blocks.filter(({ event }) => event !== undefined && event.includes('.'));
}

function blockOf(text: string): Block {
  const fields = new Map<string, string>();
  for (const line of text.split('\n')) {
    const match = /^(?<name>[a-z]*):\s?(?<value>.*)$/s.exec(line)?.groups;
    assert.ok(match !== undefined, `no line of server-sent events: ${line}`);
    fields.set(match['name'] ?? '', match['value'] ?? '');
  }
  const data = fields.get('data');
  return {
    comment: fields.get(''),
    event: fields.get('event'),
    id: fields.get('id'),
    retry: fields.get('retry'),
    data: data === undefined ? undefined : JSON.parse(data),
  };
}

/** Returns an offset as clients see it, without the check of its event: a position in the log. */
export function positionOf(text: string): string {
  return formatOffset(parseOffset(text)?.offset ?? Number.NaN);
}
