import type { Watchers } from '../changes/watchers.ts';
import { changesBody } from '../schemas/changes.ts';
import { tooManyConnections } from './http/problem.ts';
import { openSink } from './http/response-sink.ts';
import { connectionOwner, type Operation, operation } from './operation.ts';

export interface ChangesDeps {
  readonly watchers: Watchers;
}

/** Creates the operation that reports what to read again (docs/http-api.md#changes). */
export function changesOperations({ watchers }: ChangesDeps): Operation[] {
  return [
    operation({
      operationId: 'watchChanges',
      method: 'GET',
      path: '/changes',
      summary: 'Learn what to read again, as server-sent events',
      description:
        'For pages that show event streams: says at most once a second which of them changed. Continues until the client closes it, at most 5 minutes; a client reconnects.',
      tag: 'Health',
      scopes: ['read:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      isBackground: true,
      success: 200,
      response: changesBody,
      responseType: 'text/event-stream',
      admit: ({ tenant, caller }) => {
        if (!watchers.isFree(tenant.id, connectionOwner(caller))) throw tooManyConnections();
      },
      handle: ({ tenant, caller, access }) => {
        const reservation = watchers.reserve(tenant.id, connectionOwner(caller));
        if (reservation === undefined) throw tooManyConnections();
        return {
          headers: { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' },
          live: {
            begin: (response) => openSink(response, (sink) => reservation.begin(access, sink)),
            drop: reservation.release,
          },
        };
      },
    }),
  ];
}
