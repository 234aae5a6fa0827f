import { isUri, isUriReference } from '../schemas/schema.ts';
import { badBody, quoted } from './http/problem.ts';
import { isRawJSON } from '../core/verbatim.ts';

/**
 * Removes the attributes of CloudEvents that are null: they count as absent (CloudEvents 1.0.2, JSON event
 * format, section 2.2). `data` is no attribute. Changes the objects.
 */
export function removeUnset(events: readonly unknown[]): void {
  for (const event of events) {
    if (typeof event !== 'object' || event === null) continue;
    for (const [name, value] of Object.entries(event)) {
      if (value === null && name !== 'data') Reflect.deleteProperty(event, name);
    }
  }
}

/**
 * Checks the attributes of a CloudEvent beyond their schema: `id` and `source`, and those that are delivered
 * unchanged, optional ones like `subject` and extensions. Throws 400 for a name or a value that CloudEvents 1.0.2
 * (sections "Attribute Naming Convention", "Type System" and those of the attributes) does not allow, for a name
 * that begins with the service's `prefix`, and for data that is not JSON.
 */
export function checkAttributes(
  attributes: Readonly<Record<string, unknown>>,
  prefix: string,
  at: string,
): void {
  for (const [name, value] of Object.entries(attributes)) {
    const reason =
      nameViolation(name, prefix) ?? stringViolation(value) ?? valueViolation(name, value);
    if (reason !== undefined) throw badBody(reason, at + name, 'Attribute of a CloudEvent');
  }
}

function nameViolation(name: string, prefix: string): string | undefined {
  if (!/^[a-z0-9]+$/.test(name)) return `Additional properties not allowed: ${quoted(name)}`;
  if (name.startsWith(prefix) && !requiredNames.has(name))
    return `Names that begin with ${prefix} are reserved`;
  return undefined;
}

/** Whatever the prefix is, every CloudEvent has them. */
const requiredNames: ReadonlySet<string> = new Set(['id', 'source']);

/** Returns the reason why a value is not a String of CloudEvents; `undefined` for any other type. */
function stringViolation(value: unknown): string | undefined {
  const [found] = typeof value === 'string' ? (notOfString.exec(value) ?? []) : [];
  const point = found?.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0');
  return point && `Has the character U+${point}, which CloudEvents does not allow`;
}

/** Control characters, code points that are no characters, and surrogates without the other one of their pair. */
const notOfString = /[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/u;

function valueViolation(name: string, value: unknown): string | undefined {
  switch (name) {
    case 'source':
      return typeof value === 'string' && isUriReference(value)
        ? undefined
        : 'Expected a URI-reference (RFC 3986), such as https://example.com/orders or /orders';
    case 'datacontenttype':
      return typeof value === 'string' && isJsonType(value)
        ? undefined
        : 'Only JSON data is accepted';
    case 'subject':
      return typeof value === 'string' && value !== '' ? undefined : 'Expected a string, not empty';
    case 'dataschema':
      return typeof value === 'string' && isUri(value) && namesResource.test(value)
        ? undefined
        : 'Expected a URI with a scheme and a path, such as https://example.com/order.json';
    default: {
      const simple = typeof value === 'string' || typeof value === 'boolean' || isInteger(value);
      return simple ? undefined : 'Expected a string, a boolean or an integer of 32 bits';
    }
  }
}

/** A URI with an authority or a path: without both, as in `urn:` and `a:?b`, libraries refuse the whole event. */
const namesResource = /^[^:]+:[^?#]/;

function isInteger(value: unknown): boolean {
  return !isRawJSON(value) && typeof value === 'number' && value === (value | 0);
}

function isJsonType(mediaType: string): boolean {
  return /^[a-z]+\/(?:[a-z0-9.+-]+\+)?json(?:\s*;.*)?$/i.test(mediaType);
}
