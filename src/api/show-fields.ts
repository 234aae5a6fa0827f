import { fieldsOf } from '../core/json-parts.ts';
import { runSync } from '../core/slices.ts';
import type { FieldsQuery } from '../schemas/fields.ts';
import { JsonText } from './http/sliced-json.ts';

/**
 * Returns a resource with the fields that the query selects; ignores unknown names.
 *
 * @param parts are objects as JSON text, without a field in common. They stay text, because parsing and
 *   writing 1 MiB takes up to 100 ms
 */
export function showFields(
  parts: readonly string[],
  { fields = '', include_fields: include = true }: FieldsQuery = {},
): JsonText {
  const texts =
    fields === ''
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
