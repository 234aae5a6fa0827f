import { type DevOptions, devEventType } from '../../cli/dev-options.ts';
import { usageError } from '../../cli/errors.ts';
import { dataOf } from '../../cli/events.ts';
import type { ApiClient } from '../../cli/http/api-client.ts';
import type { Terminal } from '../../cli/terminal/terminal.ts';
import type { Millis } from '../../core/clock.ts';
import { sampleData } from '../../core/samples.ts';
import { printable } from '../../core/setting.ts';
import { compile, eventType } from '../../schemas/schema.ts';

/** The first event of a `leat dev`. */
export interface FirstEvent {
  readonly type: string;
  /** Absent: a sample, or for `user.created` the user that is created. */
  readonly data: object | undefined;
}

/** Reads the event of a command line. Throws a usage error. */
export async function firstEventOf(
  type: string | undefined,
  { data }: DevOptions,
  terminal: Terminal,
): Promise<FirstEvent> {
  if (type !== undefined && !isEventType(type)) {
    throw usageError(
      `"${printable(type)}" is no event type: two or more parts of a-z, 0-9 and _, joined by dots, 128 characters at most, for example order.paid`,
    );
  }
  return {
    type: type ?? devEventType,
    data: data === undefined ? undefined : objectOf(await dataOf(data, terminal)),
  };
}

const isEventType = compile(eventType);

function objectOf(data: unknown): object {
  if (typeof data === 'object' && data !== null && !Array.isArray(data)) return data;
  throw usageError(`--data is no JSON object, for example '{"id": 7}'`);
}

/** Publishes the event: as a product does with `POST /events`, or by creating a user. */
export async function publishFirst(
  api: Pick<ApiClient, 'send' | 'url'>,
  { type, data }: FirstEvent,
  now: Millis,
): Promise<void> {
  if (type === devEventType && data === undefined) {
    await api.send({
      method: 'POST',
      path: '/users',
      body: {
        email: 'ada@example.com',
        password: 'correct-horse-battery',
        connection: 'Username-Password-Authentication',
      },
    });
    return;
  }
  const sent = data ?? sampleData(type, { now, service: 'leat', issuer: `${api.url}/` });
  await api.send({ method: 'POST', path: '/events', body: { type, data: sent } });
}
