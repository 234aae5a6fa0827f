import assert from 'node:assert/strict';
import { fieldsJson } from '../core/envelope.ts';
import { parseTime } from '../core/date.ts';
import type { Millis } from '../core/clock.ts';
import { testEvent, type TestEventSent } from '../schemas/deliveries.ts';
import {
  type CloudEventSent,
  type NewEventSent,
  publish,
  publishCloudEvent,
  publishCloudEvents,
} from '../schemas/events.ts';
import { parseBody } from './http/body.ts';
import { checkExtensions } from './cloud-event.ts';
import { badBody, quoted, tooLarge } from './http/problem.ts';
import { bodyCheck, type Check } from './http/validation.ts';
import { mayHoldInexactNumber, parseVerbatim } from './http/verbatim.ts';

/** An event that a client sent, checked, its data as text. */
export interface SentEvent {
  readonly type: string;
  /** A JSON object with its numbers as they were sent; absent only in a test event. */
  readonly dataJson: string | undefined;
  /** Members for the envelope, each with a comma before it. */
  readonly extensionsJson: string;
  readonly time: Millis | undefined;
  /** The event id or the parts of the idempotency key; absent when Leat makes the id. */
  readonly key: readonly string[] | undefined;
}

export interface SentEvents {
  /** At least one. */
  readonly events: readonly SentEvent[];
  /** Whether they came as an array. */
  readonly isArray: boolean;
}

/** What a body of events may look like: three forms of publishing, and a test event. */
export type EventForm = 'own' | 'cloudEvent' | 'cloudEvents' | 'test';

/** A body to read. */
export interface BodyToRead {
  readonly bytes: Uint8Array;
  readonly form: EventForm;
}

/** What bounds events that are sent. */
export interface EventRules {
  /** Attributes of CloudEvents that begin with it are refused. */
  readonly attributePrefix: string;
  /** One event as JSON; more is 413. */
  readonly eventBytesMax: number;
}

/** Reads and checks a body of events. Throws 400 and 413. A hostile body takes some 200 ms for each MiB. */
export type ReadEvents = (body: BodyToRead) => SentEvents;

/** Creates the reader; the validators are compiled once. */
export function createEventReader(rules: EventRules): ReadEvents {
  const checks: Readonly<Record<EventForm, Check>> = {
    own: bodyCheck(publish),
    cloudEvent: bodyCheck(publishCloudEvent),
    cloudEvents: bodyCheck(publishCloudEvents),
    test: bodyCheck(testEvent),
  };
  return ({ bytes, form }) => {
    const parsed = parseBody(bytes);
    checks[form](parsed.value);
    const isArray = Array.isArray(parsed.value);
    const sent = listOf(
      mayHoldInexactNumber(parsed.text) ? parseVerbatim(parsed.text) : parsed.value,
    );
    const events = sent.map((event, index) => read(form, event, isArray ? `${index}.` : '', rules));
    // An event is never longer than the body that it came in.
    if (bytes.length > rules.eventBytesMax) {
      events.forEach(({ dataJson }, index) => {
        if (jsonBytes(sent[index], dataJson) > rules.eventBytesMax) throw tooLarge();
      });
    }
    return { isArray, events };
  };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

/** The length of an event as JSON, its data being text already: nearly all of it may be that. */
function jsonBytes(event: unknown, dataJson: string | undefined): number {
  const rest = JSON.stringify({ ...(event as object), data: undefined });
  if (dataJson === undefined) return Buffer.byteLength(rest);
  return Buffer.byteLength(rest) + ',"data":'.length + Buffer.byteLength(dataJson);
}

/** Returns what an event consists of; `at` is its place in the body, for messages. */
function read(form: EventForm, event: unknown, at: string, rules: EventRules): SentEvent {
  // The schema of the form has passed the event.
  if (form === 'own') return ownEvent(event as NewEventSent, at);
  if (form === 'test') return testEventOf(event as TestEventSent);
  return cloudEvent(event as CloudEventSent, at, rules.attributePrefix);
}

function ownEvent({ type, data, time, id }: NewEventSent, at: string): SentEvent {
  return {
    type,
    dataJson: JSON.stringify(data),
    extensionsJson: '',
    time: timeOf(time, at),
    key: id === undefined ? undefined : [id],
  };
}

function cloudEvent(sent: CloudEventSent, at: string, prefix: string): SentEvent {
  const { type, data, time, id, source, specversion, ...extensions } = sent;
  assert.equal(specversion, '1.0');
  checkExtensions(extensions, prefix, at);
  return {
    type,
    dataJson: JSON.stringify(data),
    extensionsJson: fieldsJson(extensions),
    time: timeOf(time, at),
    key: [source, id],
  };
}

function testEventOf({ event_type: type, data }: TestEventSent): SentEvent {
  const dataJson = data === undefined ? undefined : JSON.stringify(data);
  return { type, dataJson, extensionsJson: '', time: undefined, key: undefined };
}

function timeOf(text: string | undefined, at: string): Millis | undefined {
  if (text === undefined) return undefined;
  const time = parseTime(text);
  if (time !== undefined) return time;
  const reason = `Object didn't pass validation for format date-time: ${quoted(text)}`;
  throw badBody(
    reason,
    `${at}time`,
    'When it happened; the time of acceptance unless sent (RFC 3339)',
  );
}
