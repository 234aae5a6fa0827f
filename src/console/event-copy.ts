import type { TracedEventShown } from '../schemas/event-log.ts';
import { curlOf, quoted } from './command.ts';

type Envelope = TracedEventShown['event'];

/** Attributes that every event has. */
const ownAttributes = new Set(['id', 'source', 'specversion', 'type', 'time', 'data']);

/**
 * Returns a curl command that publishes an event with the same type, data and attributes. It gets an id
 * of its own: with that of the event nothing new would be delivered.
 */
export function publishingOf(event: Envelope, tenant: string, origin: string): string {
  const further = furtherAttributes(event, tenant);
  const { id, source, specversion, type, data } = event;
  if (further.length === 0) {
    return curlOf({ method: 'POST', path: '/events', body: { type, data } }, origin);
  }
  const body = {
    specversion,
    id: `${id}-copy`,
    source,
    type,
    ...Object.fromEntries(further),
    data,
  };
  return [
    `curl -X POST ${quoted(`${origin}/api/v2/events`)}`,
    '-H "Authorization: Bearer $TOKEN"',
    `-H 'Content-Type: application/cloudevents+json' -d ${quoted(JSON.stringify(body))}`,
  ].join(' \\\n  ');
}

/** Attributes that the publisher has added; not those of Leat, which have a prefix. */
function furtherAttributes(event: Envelope, tenant: string): [string, unknown][] {
  const all = Object.entries(event).filter(([name]) => !ownAttributes.has(name));
  const [name = 'svctenant'] =
    all.findLast(([key, value]) => key.endsWith('tenant') && value === tenant) ?? [];
  const prefix = name.slice(0, -'tenant'.length);
  return all.filter(([key]) => !key.startsWith(prefix));
}

/** Returns whether an event is one of a test of a stream, whatever the prefix of Leat's attributes. */
export function isTest(event: Envelope): boolean {
  return Object.entries(event).some(([key, value]) => key.endsWith('purpose') && value === 'test');
}
