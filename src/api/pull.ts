import { parseTime } from '../core/date.ts';
import { parseOffset, type Position } from '../core/offset.ts';
import type { Reservation, Pulls } from '../pull/pulls.ts';
import type { AskedStart } from '../pull/start-position.ts';
import { pullBody, pullHeaders, pullQuery } from '../schemas/pull.ts';
import type { Static } from '../schemas/schema.ts';
import { type Operation, operation } from './operation.ts';
import {
  badQuery,
  cursorExpired,
  type Problem,
  quoted,
  tooManyConnections,
} from './http/problem.ts';
import { openSink } from './http/response-sink.ts';

export interface PullDeps {
  readonly pulls: Pulls;
}

/** Reading the log as server-sent events (docs/http-api.md#pull). */
export function pullOperations({ pulls }: PullDeps): Operation[] {
  return [
    operation({
      operationId: 'pullEvents',
      method: 'GET',
      path: '/events',
      summary: 'Read the log of events as server-sent events',
      description:
        'Goes on until the client ends it, at most 5 minutes; a client comes back with the last offset. Begins after the offset of `Last-Event-ID`, else of `from`, else at `from_timestamp`, else with what comes from now on.',
      tag: 'Events',
      scopes: ['read:events'],
      lifecycle: 'Generally Available',
      query: pullQuery,
      headers: pullHeaders,
      success: 200,
      response: pullBody,
      responseType: 'text/event-stream',
      errors: [400, 410],
      admit: ({ tenant, caller }) => {
        if (!pulls.isFree(tenant.id, caller.clientId)) throw tooManyConnections();
      },
      handle: async ({ tenant, caller, query, header, access }) => {
        const asked = askedStart(query, header('last-event-id'));
        const place = pulls.take(tenant.id, caller.clientId);
        if (place === undefined) throw tooManyConnections();
        const position = await positionAt(place, asked);
        const pull = { position, types: query.event_type, access };
        return {
          headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' },
          live: {
            begin: (response) => openSink(response, (sink) => place.begin(pull, sink)),
            drop: place.leave,
          },
        };
      },
    }),
  ];
}

function askedStart(query: Static<typeof pullQuery>, lastEventId: string | undefined): AskedStart {
  const { from, from_timestamp: fromTimestamp } = query;
  if (from !== undefined && fromTimestamp !== undefined) {
    throw badFrom('from does not go with from_timestamp, send one of them');
  }
  // An empty id is none: a client that has read no id sends it so (HTML, section 9.2.4).
  if (lastEventId !== undefined && lastEventId !== '') return after(lastEventId, badHeader);
  if (from !== undefined) return after(from, badFrom);
  if (fromTimestamp === undefined) return 'now';
  const since = parseTime(fromTimestamp);
  if (since !== undefined) return { since };
  throw badTimestamp(
    `Object didn't pass validation for format date-time: ${quoted(fromTimestamp)}`,
  );
}

function after(text: string, bad: (reason: string) => Problem): AskedStart {
  const position = parseOffset(text);
  if (position !== undefined) return { after: position };
  throw bad(`Object didn't pass validation for format offset: ${quoted(text)}`);
}

async function positionAt(place: Reservation, asked: AskedStart): Promise<Position> {
  try {
    const start = await place.startOf(asked);
    if ('refused' in start) throw cursorExpired();
    return start.position;
  } catch (error) {
    place.leave();
    throw error;
  }
}

const badFrom = (reason: string): Problem => badQuery(reason, 'from', 'Offset to go on after');

const badTimestamp = (reason: string): Problem =>
  badQuery(reason, 'from_timestamp', 'Time from which on accepted events are sent (RFC 3339)');

const badHeader = (reason: string): Problem =>
  badQuery(reason, 'Last-Event-ID', 'Header, offset of the last event that was read');
