import type { Millis } from './clock.ts';
import { formatTime } from './date.ts';

/** What an envelope is made of (contract section 10). */
export interface EnvelopeParts {
  /** `evt_` and 22 base58 characters. */
  readonly id: string;
  /** A well-formed event type, so that it needs no escaping. */
  readonly type: string;
  readonly time: Millis;
  /** A JSON object; what `JSON.stringify` makes of it is delivered. */
  readonly data: unknown;
  readonly tenantName: string;
  /** LEAT_SERVICE_NAME. */
  readonly service: string;
  /** LEAT_ATTRIBUTE_PREFIX. */
  readonly prefix: string;
  readonly purpose?: 'test' | undefined;
  /** Further CloudEvents attributes, delivered as they are. */
  readonly extensions?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * The envelope without the stream's member, as JSON text. Written out rather than stringified as a
 * whole: every member but `data` and `extensions` is known to need no escaping, and this runs once
 * per published event.
 * `writeTime` may be one that remembers.
 */
export function makeBody(parts: EnvelopeParts, writeTime = formatTime): string {
  const { id, type, time, data, tenantName, service, prefix, purpose, extensions } = parts;
  const more = extensions === undefined ? '' : members(extensions);
  const mark = purpose === undefined ? '' : `,"${prefix}purpose":"${purpose}"`;
  return (
    `{"id":"${id}","source":"urn:${service}:","specversion":"1.0","type":"${type}"` +
    `,"time":"${writeTime(time)}","data":${JSON.stringify(data)}${more}` +
    `,"${prefix}tenant":"${tenantName}"${mark}}`
  );
}

/** The envelope as one stream's destination gets it, from what {@link makeBody} made. */
export function deliveryBody(body: string, prefix: string, streamId: string): string {
  return `${body.slice(0, -1)},"${prefix}stream":"${streamId}"}`;
}

function members(extensions: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(extensions).slice(1, -1);
  return text === '' ? '' : `,${text}`;
}
