import { Type } from 'typebox';
import { closed } from './schema.ts';

const count = Type.Integer();

/** The list of actions, always empty. */
export const actions = closed({
  actions: Type.Array(Type.Object({}), { maxItems: 0 }),
  total: count,
  page: count,
  per_page: count,
});
