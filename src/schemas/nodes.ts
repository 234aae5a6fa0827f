import { type Static, Type } from 'typebox';
import { closed, component, time } from './schema.ts';

const node = closed(
  {
    id: Type.String({ examples: ['leat-1-5b0f9c3a'], description: 'Its name' }),
    version: Type.Optional(
      Type.String({ examples: ['0.2.0'], description: 'Of the program; absent where unknown' }),
    ),
    streams: Type.Integer({ minimum: 0, description: 'Event streams that it owns' }),
    lease_ms: Type.Integer({
      minimum: 0,
      description: 'Remaining time of its lease; 0 once it has ended',
    }),
    clock_skew_ms: Type.Integer({ description: 'How far its clock is ahead of that of the store' }),
    is_self: Type.Boolean({ description: 'Whether it sends this response' }),
  },
  { description: 'A node' },
);

/** The nodes on the store, and the store. */
export const nodes = component('Nodes', 'The nodes of the service and its store', {
  as_of: time,
  nodes: Type.Array(node, {
    description: 'Those with a lease, and former ones whose streams are not taken yet, by id',
  }),
  store: closed(
    {
      engine: Type.Enum(['sqlite', 'postgres'], { description: 'Engine of LEAT_STORE' }),
      bytes: Type.Integer({ minimum: 0, description: 'Size of the database' }),
      free_bytes: Type.Optional(
        Type.Integer({
          minimum: 0,
          description: 'The part that can be reused without growing; absent where unknown',
        }),
      ),
    },
    { description: 'The store' },
  ),
});

export type NodesShown = Static<typeof nodes>;
