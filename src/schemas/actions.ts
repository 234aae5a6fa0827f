import { Type } from 'typebox';
import { accepted, closed } from './schema.ts';

const none = accepted('there are no actions');

/** Query of the list: what clients that export a tenant send. */
export const actionsQuery = closed({
  page: none,
  per_page: none,
  triggerId: none,
  actionName: none,
  deployed: none,
  installed: none,
});

const count = Type.Integer();

/** The list of actions, always empty. */
export const actions = closed({
  actions: Type.Array(Type.Object({}), { maxItems: 0 }),
  total: count,
  page: count,
  per_page: count,
});
