import { mapInSlices } from '../../core/slices.ts';
import type { Operation, OperationResponse } from '../operation.ts';
import { Problem } from './problem.ts';
import { JsonText } from './sliced-json.ts';
import { isRawJSON, parseKept } from '../../core/verbatim.ts';
import type { Schema } from './violation.ts';

/**
 * What is withheld from roles that may not see payloads (docs/http-api.md#console-roles). Fields are
 * recognized by their names in any response at any depth: an operation that is new is covered before
 * anybody thinks of it.
 */

/** Returns whether an operation would tell payloads in a way that {@link withheldResponse} cannot cover. */
export function tellsPayloads({ query, responseType }: Operation): boolean {
  const isLive = responseType === 'text/event-stream';
  // Which events match a condition tells what is in them.
  const { properties = {} }: Schema = query ?? {};
  return isLive || Object.hasOwn(properties, 'filter');
}

/** Returns the 403 of such an operation. */
export function payloadWithheld(): Problem {
  const message = 'Payloads are withheld from this role, and the operation would tell them.';
  return new Problem(403, message, 'payload_withheld');
}

/** Returns a response without payloads. */
export async function withheldResponse({
  json,
  body,
  ...rest
}: OperationResponse): Promise<OperationResponse> {
  if (json !== undefined) return { ...rest, body: withheldFrom(parseKept(json)) };
  return body === undefined ? rest : { ...rest, body: await withheldFromBody(body) };
}

/** Lists may have megabytes of events: their items are taken in slices. */
async function withheldFromBody(body: unknown): Promise<unknown> {
  if (Array.isArray(body)) return mapInSlices(body, withheldFrom, lengthOf);
  if (!isObject(body) || body instanceof JsonText) return withheldFrom(body);
  const lists = new Map<string, unknown>();
  for (const [name, value] of Object.entries(body)) {
    if (Array.isArray(value)) lists.set(name, await mapInSlices(value, withheldFrom, lengthOf));
  }
  return withheldFromObject(body, (name, value) => lists.get(name) ?? shownField(name, value));
}

function lengthOf(item: unknown): number {
  return item instanceof JsonText ? item.pieces.reduce((sum, { length }) => sum + length, 0) : 0;
}

/** Fields of a CloudEvent that have its payload (CloudEvents 1.0.2, JSON format section 3.1). */
const payloadFields: ReadonlySet<string> = new Set(['data', 'data_base64']);

function withheldFrom(value: unknown): unknown {
  if (value instanceof JsonText) return withheldFrom(parseKept(value.pieces.join('')));
  if (Array.isArray(value)) return value.map(withheldFrom);
  return isObject(value) && !isRawJSON(value) ? withheldFromObject(value) : value;
}

function withheldFromObject(
  object: object,
  show: (name: string, value: unknown) => unknown = shownField,
): object {
  const entries = Object.entries(object);
  const isEvent = Object.hasOwn(object, 'specversion') || entries.some(isPayload);
  const shown = isEvent ? entries.filter(([name]) => !payloadFields.has(name)) : entries;
  // Not an assignment: a field may be called __proto__.
  return Object.fromEntries([
    ...shown.map(([name, value]) => [name, show(name, value)] as const),
    ...(isEvent ? marks : []),
  ]);
}

/** What an event has in place of its payload. */
const marks = [
  ['data', {}],
  ['withheld', true],
] as const;

/** Statistics have lists that are called `data`; that of an event is an object. */
function isPayload([name, value]: readonly [string, unknown]): boolean {
  return payloadFields.has(name) && !Array.isArray(value);
}

function shownField(name: string, value: unknown): unknown {
  return name === 'error_message' && typeof value === 'string'
    ? messageWithoutBody(value)
    : withheldFrom(value);
}

/** Returns an error message without the body of a receiver's response, which may repeat the payload. */
function messageWithoutBody(message: string): string {
  const at = message.indexOf(' - ');
  return at === -1 ? message : message.slice(0, at);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
