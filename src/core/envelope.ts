import type { Millis } from './clock.ts';
import { formatTime } from './date.ts';

/** The parts of an envelope (docs/http-api.md#event-envelope). */
export interface EnvelopeParts extends EnvelopeFields {
  /** A JSON object; delivered as `JSON.stringify` writes it. */
  readonly data: unknown;
  /** Further CloudEvents attributes, delivered unchanged. */
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/** The parts of an envelope, with data and extensions as JSON text. */
export interface EnvelopeText extends EnvelopeFields {
  /** A JSON object. */
  readonly dataJson: string;
  /** Fields for the envelope, each with a comma before it; empty when there are none. */
  readonly extensionsJson: string;
}

interface EnvelopeFields {
  /** `evt_` and 22 base58 characters. */
  readonly id: string;
  /** A well-formed event type, so that it needs no escaping. */
  readonly type: string;
  readonly time: Millis;
  readonly tenantName: string;
  /** LEAT_SERVICE_NAME. */
  readonly service: string;
  /** LEAT_ATTRIBUTE_PREFIX. */
  readonly prefix: string;
  readonly purpose?: 'test' | undefined;
}

/**
 * Returns the envelope without the field of the stream, as JSON text. `writeTime` may cache, see
 * `createTimeWriter`.
 */
export function makeBody(parts: EnvelopeParts, writeTime = formatTime): string {
  const { data, extensions, ...fields } = parts;
  const extensionsJson = extensions === undefined ? '' : fieldsJson(extensions);
  return makeBodyFromText({ ...fields, dataJson: JSON.stringify(data), extensionsJson }, writeTime);
}

/**
 * Does the same as {@link makeBody} with JSON text. Concatenates instead of calling `JSON.stringify`,
 * as it runs for every published event; no other field needs escaping.
 */
export function makeBodyFromText(parts: EnvelopeText, writeTime = formatTime): string {
  const { id, type, time, dataJson, extensionsJson, tenantName, service, prefix } = parts;
  const mark = parts.purpose === undefined ? '' : `,"${prefix}purpose":"${parts.purpose}"`;
  return (
    `{"id":"${id}","source":"urn:${service}:","specversion":"1.0","type":"${type}"` +
    `,"time":"${writeTime(time)}","data":${dataJson}${extensionsJson}` +
    `,"${prefix}tenant":"${tenantName}"${mark}}`
  );
}

/** Returns the envelope that the destination of a stream receives, from one of {@link makeBody}. */
export function deliveryBody(body: string, prefix: string, streamId: string): string {
  return `${body.slice(0, -1)},"${prefix}stream":"${streamId}"}`;
}

/** Returns fields as JSON text, each with a comma before it; empty when there are none. */
export function fieldsJson(fields: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(fields).slice(1, -1);
  return text === '' ? '' : `,${text}`;
}
