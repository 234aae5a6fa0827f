import type { User } from '../core/types.ts';
import { userParts } from '../core/users.ts';
import type { FieldsQuery } from '../schemas/users.ts';
import { fieldsOf } from '../core/json-parts.ts';
import { runSync } from '../core/slices.ts';
import { JsonText } from './http/sliced-json.ts';

/**
 * Returns the user with the fields that the query selects; ignores unknown names. Keeps the profile as
 * text, because parsing and writing 1 MiB takes up to 100 ms.
 */
export function showUser(
  user: User,
  { fields, include_fields: include = true }: FieldsQuery = {},
): JsonText {
  const parts = userParts(user);
  const texts =
    fields === undefined
      ? parts.map((part) => part.slice(1, -1)).filter((inner) => inner !== '')
      : selectedFields(parts, { names: namesOf(fields), include });
  const pieces = texts.flatMap((text) => [',', text]);
  return new JsonText('{', ...pieces.slice(1), '}');
}

function namesOf(fields: string): ReadonlySet<string> {
  return new Set(fields.split(',').map((name) => name.trim()));
}

function selectedFields(
  objects: readonly string[],
  { names, include }: { readonly names: ReadonlySet<string>; readonly include: boolean },
): string[] {
  return objects
    .flatMap((object) => runSync(fieldsOf(object)))
    .filter(({ name }) => names.has(name) === include)
    .map(({ text }) => text);
}
