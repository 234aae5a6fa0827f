import type { Position } from '../core/offset.ts';
import type { Reservation, Pulls } from '../pull/pulls.ts';
import type { RequestedStart } from '../pull/start-position.ts';
import { pullBody, pullHeaders, pullQuery } from '../schemas/pull.ts';
import type { Static } from '../schemas/schema.ts';
import { positionOf, timeOf } from './formats.ts';
import { connectionOwner, type Operation, operation } from './operation.ts';
import { badQuery, cursorExpired, type Problem, tooManyConnections } from './http/problem.ts';
import { openSink } from './http/response-sink.ts';

export interface PullDeps {
  readonly pulls: Pulls;
}

/** Creates the operation that reads the log as server-sent events (docs/http-api.md#pull). */
export function pullOperations({ pulls }: PullDeps): Operation[] {
  return [
    operation({
      operationId: 'pullEvents',
      method: 'GET',
      path: '/events',
      summary: 'Read the log of events as server-sent events',
      description:
        'Continues until the client closes it, at most 5 minutes; a client reconnects with the last offset. Starts after the offset of `Last-Event-ID`, else of `from`, else at `from_timestamp`, else with new events.',
      tag: 'Events',
      scopes: ['read:events'],
      lifecycle: 'Generally Available',
      query: pullQuery,
      headers: pullHeaders,
      success: 200,
      response: pullBody,
      responseType: 'text/event-stream',
      errors: [410],
      admit: ({ tenant, caller }) => {
        if (!pulls.isFree(tenant.id, connectionOwner(caller))) throw tooManyConnections();
      },
      handle: async ({ tenant, caller, query, headerValues, access }) => {
        const start = startOf(query, headerValues('last-event-id').join(', '));
        const reservation = pulls.reserve(tenant.id, connectionOwner(caller));
        if (reservation === undefined) throw tooManyConnections();
        const position = await startPosition(reservation, start);
        const isNew = start === 'now' || 'since' in start;
        const pull = { position, types: query.event_type, isNew, access };
        return {
          headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' },
          live: {
            begin: (response) => openSink(response, (sink) => reservation.begin(pull, sink)),
            drop: reservation.release,
          },
        };
      },
    }),
  ];
}

function startOf(query: Static<typeof pullQuery>, lastEventId: string): RequestedStart {
  const { from, from_timestamp: fromTimestamp } = query;
  if (from !== undefined && fromTimestamp !== undefined) {
    throw badFrom('from does not go with from_timestamp, send one of them');
  }
  // An empty id counts as none: a client sends it before it has read any id (HTML, section 9.2.4).
  if (lastEventId !== '') {
    return { after: positionOf(lastEventId, badHeader) };
  }
  if (from !== undefined) return { after: positionOf(from, badFrom) };
  return fromTimestamp === undefined ? 'now' : { since: timeOf(fromTimestamp, badTimestamp) };
}

async function startPosition(reservation: Reservation, start: RequestedStart): Promise<Position> {
  try {
    const found = await reservation.startOf(start);
    if ('refused' in found) throw cursorExpired();
    return found.position;
  } catch (error) {
    reservation.release();
    throw error;
  }
}

const badFrom = (reason: string): Problem => badQuery(reason, 'from', 'Offset to go on after');

const badTimestamp = (reason: string): Problem =>
  badQuery(reason, 'from_timestamp', 'Time from which on accepted events are sent (RFC 3339)');

const badHeader = (reason: string): Problem =>
  badQuery(reason, 'Last-Event-ID', 'Header, offset of the last event that was read');
