import type { User } from '../core/types.ts';
import { userParts } from '../core/users.ts';
import type { FieldsQuery } from '../schemas/fields.ts';
import type { JsonText } from './http/sliced-json.ts';
import { showFields } from './show-fields.ts';

/** Returns the user with the fields that the query selects. */
export function showUser(user: User, query: FieldsQuery = {}): JsonText {
  return showFields(userParts(user), query);
}
