import { Type, type Static } from 'typebox';
import { fieldsQuery } from './fields.ts';
import { numberedPageQuery, totals } from './numbered-page.ts';
import {
  closed,
  component,
  next,
  pageQuery,
  sentTime,
  time,
  unsupported,
  accepted,
} from './schema.ts';

const searching =
  'Leat does not search the audit log; use types, client_id, target, date_from or date_to';

/** Query of the list of entries. */
export const entriesQuery = closed({
  ...numberedPageQuery,
  ...pageQuery,
  types: Type.Optional(Type.String({ maxLength: 1024, description: 'Types, comma separated' })),
  client_id: Type.Optional(
    Type.String({ maxLength: 256, description: 'Id of the client that did it' }),
  ),
  target: Type.Optional(
    Type.String({ maxLength: 1024, description: 'Id among the targets of the entry' }),
  ),
  date_from: Type.Optional(sentTime('Earliest time, inclusive')),
  date_to: Type.Optional(sentTime('Latest time, exclusive')),
  sort: Type.Optional(
    Type.String({ pattern: '^date:-1$', description: 'date:-1, newest first: the only order' }),
  ),
  ...fieldsQuery,
  search_engine: accepted('Leat does not search the audit log'),
  q: unsupported(searching),
  search: unsupported(searching),
});

/** Path of one entry. */
export const entryParams = closed({ id: Type.String({ description: 'The log_id of the entry' }) });

const details = Type.Object(
  {
    targets: Type.Array(Type.String(), { description: 'Ids of what the entry is about' }),
    method: Type.Optional(Type.String({ description: 'Method of the request' })),
    path: Type.Optional(Type.String({ description: 'Path of the request, without its query' })),
    changed: Type.Optional(
      Type.Array(Type.String(), { description: 'Names of the top-level fields of the body' }),
    ),
  },
  { additionalProperties: true, description: 'Further fields, by type' },
);

/** An entry in responses. */
export const entry = component('LogEntry', 'An entry of the audit log', {
  log_id: Type.String({
    examples: ['log_5xJq2Vn8kYdW3tRbHs7McA'],
    description: 'Unique identifier for the entry',
  }),
  date: time,
  type: Type.String({ examples: ['sapi'], description: 'What kind of thing happened' }),
  description: Type.String({ description: 'What happened, for people' }),
  client_id: Type.Optional(Type.String({ description: 'The client that did it' })),
  client_name: Type.Optional(Type.String({ description: 'Its name at that time' })),
  ip: Type.Optional(Type.String({ description: 'Address that the request came from' })),
  user_agent: Type.Optional(Type.String({ description: 'At most 256 characters' })),
  details,
  count: Type.Optional(
    Type.Integer({ description: 'How many equal ones the entry stands for; absent for one' }),
  ),
});

const selected = Type.Partial(entry, { description: 'With the fields that the query selects' });

/** Responses of the list. */
export const entries = Type.Union([
  Type.Array(selected, { description: 'Without take, from and include_totals' }),
  closed({ ...totals, logs: Type.Array(selected) }),
  closed({ logs: Type.Array(selected), next }),
]);

export type EntriesQuery = Static<typeof entriesQuery>;
export type EntryShown = Static<typeof entry>;
export type EntryPageShown = { readonly logs: readonly EntryShown[]; readonly next?: string };
