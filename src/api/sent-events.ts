import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { fieldsJson } from '../core/envelope.ts';
import type { Millis } from '../core/clock.ts';
import { testEvent, type TestEventSent } from '../schemas/deliveries.ts';
import {
  type CloudEventSent,
  idText,
  type NewEventSent,
  publish,
  publishCloudEvent,
  publishCloudEvents,
} from '../schemas/events.ts';
import { checkVerbatimDepth, parseBody, type ParsedBody } from './http/body.ts';
import { checkAttributes, removeUnset } from './cloud-event.ts';
import { timeOf } from './formats.ts';
import { badKey } from './idempotency-key.ts';
import { badBody, loneReason, nulReason, tooLarge } from './http/problem.ts';
import { bodyCheck, type Check } from './http/validation.ts';
import { isRawJSON, mayHoldInexactNumber, parseVerbatim } from '../core/verbatim.ts';

/** A valid event that a client sent, with its data as text. */
export interface SentEvent {
  readonly type: string;
  /** A JSON object with unchanged numbers; can be absent in a test event only. */
  readonly dataJson: string | undefined;
  /** Fields for the envelope, each with a comma before it. */
  readonly extensionsJson: string;
  readonly time: Millis | undefined;
  /** The event id or the parts of the idempotency key; absent if Leat creates the id. */
  readonly key: readonly string[] | undefined;
  /** With a key: the `content` for the log. */
  readonly content: string | undefined;
}

export interface SentEvents {
  /** At least one. */
  readonly events: readonly SentEvent[];
  /** Whether they were sent as an array. */
  readonly isArray: boolean;
}

/** The forms of a body: three to publish events, and one to send a test event. */
export type EventForm = 'own' | 'cloudEvent' | 'cloudEvents' | 'test';

/** A body to read. */
export interface BodyToRead {
  readonly bytes: Uint8Array;
  readonly form: EventForm;
  /** The id of its one event, from the header `Idempotency-Key`. */
  readonly idempotencyKey?: string | undefined;
}

/** The limits of events. */
export interface EventRules {
  /** CloudEvents attributes that begin with it are rejected. */
  readonly attributePrefix: string;
  /** One event as JSON; more is 413. */
  readonly eventBytesMax: number;
}

/** Reads and checks a body of events. Throws 400 and 413. A hostile body takes some 200 ms per MiB. */
export type ReadEvents = (body: BodyToRead) => SentEvents;

/** Creates the reader; the validators are compiled once. */
export function createEventReader(rules: EventRules): ReadEvents {
  const checks: Readonly<Record<EventForm, Check>> = {
    own: bodyCheck(publish),
    cloudEvent: bodyCheck(publishCloudEvent),
    cloudEvents: bodyCheck(publishCloudEvents),
    test: bodyCheck(testEvent),
  };
  return ({ bytes, form, idempotencyKey }) => {
    const parsed = parseBody(bytes);
    const isCloudEvent = form === 'cloudEvent' || form === 'cloudEvents';
    if (isCloudEvent) removeUnset(listOf(parsed.value));
    checks[form](parsed.value);
    const isArray = Array.isArray(parsed.value);
    const sent = listOf(verbatimOf(bytes, parsed));
    if (isCloudEvent) removeUnset(sent);
    if (idempotencyKey !== undefined) applyKey(idempotencyKey, form, isArray ? undefined : sent[0]);
    const events = sent.map((event, index) => read(form, event, isArray ? `${index}.` : '', rules));
    // An event is never longer than its body.
    if (bytes.length > rules.eventBytesMax) {
      events.forEach(({ dataJson }, index) => {
        if (jsonBytes(sent[index], dataJson) > rules.eventBytesMax) {
          throw tooLarge('an event', rules.eventBytesMax);
        }
      });
    }
    return { isArray, events };
  };
}

function verbatimOf(bytes: Uint8Array, { text, value }: ParsedBody): unknown {
  if (!mayHoldInexactNumber(text)) return value;
  checkVerbatimDepth(bytes);
  return parseVerbatim(text);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

/** Returns the bytes of an event as JSON; reuses the text of its data, which can be most of it. */
function jsonBytes(event: unknown, dataJson: string | undefined): number {
  const rest = JSON.stringify({ ...(event as object), data: undefined });
  if (dataJson === undefined) return Buffer.byteLength(rest);
  return Buffer.byteLength(rest) + ',"data":'.length + Buffer.byteLength(dataJson);
}

/** Makes the key the id of the event, the only one of the request. Throws 400 for a body that has no place for it. */
function applyKey(idempotencyKey: string, form: EventForm, event: unknown): void {
  if (form !== 'own') throw badKey('A CloudEvent has its key in source and id');
  if (event === undefined) throw badKey('An array has an id for each event');
  // The event is valid by the schema of its form.
  const sent = event as { id?: string };
  if (sent.id !== undefined && sent.id !== idempotencyKey) throw badKey('The event has another id');
  sent.id = idempotencyKey;
}

/** Returns the parts of an event; `at` is its path in the body, for error messages. */
function read(form: EventForm, event: unknown, at: string, rules: EventRules): SentEvent {
  // The event is valid by the schema of its form.
  if (form === 'own') return ownEvent(event as NewEventSent, at);
  if (form === 'test') return testEventOf(event as TestEventSent);
  return cloudEvent(event as CloudEventSent, at, rules.attributePrefix);
}

function ownEvent({ type, data, time, id }: NewEventSent, at: string): SentEvent {
  if (id !== undefined) checkId(id, at);
  return {
    type,
    dataJson: JSON.stringify(data),
    extensionsJson: '',
    time: eventTimeOf(time, at),
    key: id === undefined ? undefined : [id],
    content: id === undefined ? undefined : contentOf(type, data),
  };
}

/** An id is looked up in a path, which has neither U+0000 nor half a surrogate pair. Throws 400. */
function checkId(id: string, at: string): void {
  const reason = id.includes('\0') ? nulReason : id.isWellFormed() ? undefined : loneReason;
  if (reason !== undefined) throw badBody(reason, `${at}id`, idText);
}

function cloudEvent(sent: CloudEventSent, at: string, prefix: string): SentEvent {
  const { type, data, time, id, source, specversion, ...extensions } = sent;
  assert.equal(specversion, '1.0');
  checkAttributes({ id, source, ...extensions }, prefix, at);
  return {
    type,
    dataJson: JSON.stringify(data),
    extensionsJson: fieldsJson(extensions),
    time: eventTimeOf(time, at),
    key: [source, id],
    content: contentOf(type, data),
  };
}

function testEventOf({ event_type: type, data }: TestEventSent): SentEvent {
  const dataJson = data === undefined ? undefined : JSON.stringify(data);
  return {
    type,
    dataJson,
    extensionsJson: '',
    time: undefined,
    key: undefined,
    content: undefined,
  };
}

function eventTimeOf(text: string | undefined, at: string): Millis | undefined {
  if (text === undefined) return undefined;
  const description = 'When it happened; the time of acceptance unless sent (RFC 3339)';
  return timeOf(text, (reason) => badBody(reason, `${at}time`, description));
}

/**
 * Returns 32 hexadecimal digits that are the same for events with the same type and the same data: the order of
 * members and blanks do not count, and numbers are compared by their text. `data` is as {@link JSON.parse} returns it,
 * or with numbers as {@link JSON.rawJSON}.
 */
function contentOf(type: string, data: unknown): string {
  const text = `${type}\n${JSON.stringify(data, sortMembers)}`;
  return createHash('sha256').update(text).digest('hex').slice(0, contentDigits);
}

const contentDigits = 32;

/** Replaces an object by one that has its members in the order of their names. */
function sortMembers(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isRawJSON(value)) {
    return value;
  }
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members);
}
