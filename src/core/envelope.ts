import type { Millis } from './clock.ts';
import { formatTime } from './date.ts';

/** What an envelope is made of (docs/http-api.md#event-envelope). */
export interface EnvelopeParts extends EnvelopeFacts {
  /** A JSON object; what `JSON.stringify` makes of it is delivered. */
  readonly data: unknown;
  /** Further CloudEvents attributes, delivered as they are. */
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/** An envelope whose variable parts are JSON text already. */
export interface EnvelopeText extends EnvelopeFacts {
  /** A JSON object. */
  readonly dataJson: string;
  /** Members for the envelope, each with a comma before it; empty when there are none. */
  readonly extensionsJson: string;
}

interface EnvelopeFacts {
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
 * Returns the envelope without the stream's member, as JSON text. `writeTime` may be one that
 * remembers.
 */
export function makeBody(parts: EnvelopeParts, writeTime = formatTime): string {
  const { data, extensions, ...facts } = parts;
  const extensionsJson = extensions === undefined ? '' : membersJson(extensions);
  return makeBodyFromText({ ...facts, dataJson: JSON.stringify(data), extensionsJson }, writeTime);
}

/**
 * Returns what {@link makeBody} returns, from parts that are text. Written out rather than
 * stringified as a whole: every other member is known to need no escaping, and this runs once per
 * published event.
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

/** The envelope as one stream's destination gets it, from what {@link makeBody} made. */
export function deliveryBody(body: string, prefix: string, streamId: string): string {
  return `${body.slice(0, -1)},"${prefix}stream":"${streamId}"}`;
}

/** Returns members as they stand in an object after another member; empty when there are none. */
export function membersJson(members: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(members).slice(1, -1);
  return text === '' ? '' : `,${text}`;
}
