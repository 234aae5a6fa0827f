import { isReservedHeader } from '../core/reserved-headers.ts';
import { fieldNames } from '../core/field-path.ts';
import type { DeliveryOptionsSent } from '../schemas/delivery-options.ts';
import type { DestinationSent, StreamPatchSent, StreamShown } from '../schemas/streams.ts';
import { filterOfDraft } from './filter-draft.ts';
import { readDelays } from './retry-times.ts';
import { draftOf, noStatuses, type StreamDraft, typesOf } from './stream-draft.ts';

/** Where a problem is shown: the property of the request that has it. */
export type Field = (typeof fields)[number];

const authorizationAt = 'destination.configuration.webhook_authorization';

/** The fields of the form, by the properties that they send. */
const fields = [
  'name',
  'subscriptions',
  'destination.configuration.webhook_endpoint',
  'destination.configuration.client_certificate',
  `${authorizationAt}.username`,
  `${authorizationAt}.header_key`,
  `${authorizationAt}.token_endpoint`,
  `${authorizationAt}.client_id`,
  `${authorizationAt}.scope`,
  `${authorizationAt}.audience`,
  // The one that has the secret of the method.
  authorizationAt,
  'delivery.retry.retry_4xx',
  'delivery.retry',
  'delivery.filter',
  'delivery.order_by',
  'delivery.on_failure',
  'delivery.per_second',
  'delivery.concurrency',
  'delivery.timeout_ms',
  'delivery.signature',
  'delivery.headers',
] as const;

export type Problems = Partial<Readonly<Record<Field, string>>>;

/** Returns the field that shows a problem with a property; `undefined` for none of the form. */
export function fieldOf(property: string): Field | undefined {
  return fields.find((field) => property === field || property.startsWith(`${field}.`));
}

/** Returns where an error of the server belongs, and its reason; `undefined` for the whole form. */
export function problemOf(message: string, code: string | undefined): Problems | undefined {
  if (code === 'stream_name_in_use') return { name: message };
  const groups = /error: '(?<reason>.*)' on property (?<property>\S+)(?: |$)/s.exec(
    message,
  )?.groups;
  const field = fieldOf(groups?.['property'] ?? '');
  return field === undefined ? undefined : { [field]: groups?.['reason'] ?? message };
}

/** What saving would send, and what is wrong before. */
export interface Changes {
  /** Only what differs; empty when nothing does. */
  readonly patch: StreamPatchSent;
  readonly problems: Problems;
}

/** Returns what a draft changes. */
export function changesOf(stream: StreamShown, draft: StreamDraft): Changes {
  const present = draftOf(stream);
  const problems: Record<string, string> = {};
  const patch: StreamPatchSent = {
    ...(draft.name === present.name ? {} : { name: nameOf(draft, problems) }),
    ...(typesOf(draft).join() === present.types.join()
      ? {}
      : { subscriptions: subscriptionsOf(draft, problems) }),
    ...destinationChange(stream, draft, problems),
    ...deliveryChange(stream, draft, problems),
  };
  return { patch, problems };
}

type Found = Record<string, string>;

function nameOf({ name }: StreamDraft, problems: Found): string {
  if (name.trim() === '') problems['name'] = 'A stream needs a name';
  return name.trim();
}

function subscriptionsOf(draft: StreamDraft, problems: Found): { event_type: string }[] {
  const read = typesOf(draft);
  const wrong = read.find((type) => !/^[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+$/.test(type));
  if (wrong !== undefined) {
    problems['subscriptions'] =
      `“${wrong}” is no event type: two or more segments of a-z, 0-9 and _, joined by dots`;
  }
  if (read.length > 1000)
    problems['subscriptions'] = `${read.length} event types: there may be 1000`;
  return read.map((type) => ({ event_type: type }));
}

type Change = Pick<StreamPatchSent, 'destination' | 'delivery'>;

function destinationChange(stream: StreamShown, draft: StreamDraft, problems: Found): Change {
  const { configuration } = stream.destination;
  const authorization = authorizationOf(draft);
  const present = JSON.stringify(authorizationOf(draftOf(stream)));
  const endpoint = draft.endpoint.trim();
  const isMoved = endpoint !== configuration.webhook_endpoint;
  const isOther = isMoved || JSON.stringify(authorizationOf({ ...draft, secret: '' })) !== present;
  const certificate = certificateOf(stream, draft, isMoved, problems);
  if (!isOther && draft.secret === '' && certificate === undefined) return {};
  if (isOther && draft.secret === '') {
    problems[authorizationAt] = 'Type it again: it is kept only while the rest stays as it is';
  }
  checkEndpoint(draft, problems);
  return {
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: endpoint,
        webhook_authorization: authorization,
        ...(certificate === undefined ? {} : { client_certificate: certificate }),
      },
    },
  };
}

function checkEndpoint(draft: StreamDraft, problems: Found): void {
  if (!/^https?:\/\/[^/]/i.test(draft.endpoint.trim()) || !URL.canParse(draft.endpoint.trim())) {
    problems['destination.configuration.webhook_endpoint'] = 'A URL that begins with https://';
  }
  if (draft.method === 'custom_header' && isReservedHeader(draft.headerKey)) {
    problems[`${authorizationAt}.header_key`] = `Leat sets ${draft.headerKey} itself`;
  }
}

type Certificate = DestinationSent['configuration']['client_certificate'];

/** Returns the certificate to send; `undefined` to keep the present one, or none. */
function certificateOf(
  { destination: { configuration } }: StreamShown,
  draft: StreamDraft,
  isMoved: boolean,
  problems: Found,
): Certificate {
  const hasOne = configuration.client_certificate !== undefined;
  const at = 'destination.configuration.client_certificate';
  if (draft.certificate === 'none') return hasOne ? null : undefined;
  if (draft.certificate === 'keep') {
    if (isMoved) problems[at] = 'Replace it, or remove it: its key is not sent to another endpoint';
    return undefined;
  }
  if (draft.certificatePem.trim() === '' || draft.privateKey.trim() === '') {
    problems[at] = 'Both the certificate and its key are needed, in PEM';
  }
  return { certificate: draft.certificatePem, private_key: draft.privateKey };
}

type AuthorizationSent = DestinationSent['configuration']['webhook_authorization'];

function authorizationOf(draft: StreamDraft): AuthorizationSent {
  const { method, secret, scope, audience } = draft;
  switch (method) {
    case 'basic':
      return { method, username: draft.username, ...(secret === '' ? {} : { password: secret }) };
    case 'bearer':
      return { method, ...(secret === '' ? {} : { token: secret }) };
    case 'custom_header':
      return {
        method,
        header_key: draft.headerKey,
        ...(secret === '' ? {} : { header_value: secret }),
      };
    case 'oauth2_client_credentials':
      return {
        method,
        token_endpoint: draft.tokenEndpoint.trim(),
        client_id: draft.clientId,
        ...(scope === '' ? {} : { scope }),
        ...(audience === '' ? {} : { audience }),
        ...(secret === '' ? {} : { client_secret: secret }),
      };
  }
}

function deliveryChange(stream: StreamShown, draft: StreamDraft, problems: Found): Change {
  const delivery = deliveryOf(draft, problems);
  if (sorted(delivery) === sorted(deliveryOf(draftOf(stream), {}))) return {};
  return { delivery: Object.keys(delivery).length === 0 ? null : delivery };
}

/** The options as text, whatever the order of their names; a filter keeps the order of its own. */
function sorted(delivery: DeliveryOptionsSent): string {
  const entries = Object.entries(delivery).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify(entries);
}

/** Returns all options of delivery of a draft. */
function deliveryOf(draft: StreamDraft, problems: Found): DeliveryOptionsSent {
  const retry = retryOf(draft, problems);
  const filter = filterOfDraft(draft.filter);
  if ('problem' in filter) problems['delivery.filter'] = filter.problem;
  const headers = headersOf(draft, problems);
  return {
    ...('problem' in filter || filter.filter === undefined ? {} : { filter: filter.filter }),
    ...(retry === undefined ? {} : { retry }),
    ...numbersOf(draft, problems),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...(draft.signature === '' ? {} : { signature: draft.signature }),
    ...orderOf(draft, problems),
  };
}

function retryOf(draft: StreamDraft, problems: Found): DeliveryOptionsSent['retry'] {
  if (draft.retry === 'default') return undefined;
  if (draft.retry !== 'own') return draft.retry;
  const read = readDelays(draft.delays);
  if ('problem' in read) problems['delivery.retry'] = read.problem;
  const delays = 'problem' in read ? [] : [...read.delays];
  if (draft.retry4xx.trim() === '') return { delays_seconds: delays };
  if (draft.retry4xx.trim() === noStatuses) return { delays_seconds: delays, retry_4xx: [] };
  const statuses = draft.retry4xx.split(/[\s,]+/).filter((word) => word !== '');
  const wrong = statuses.find((status) => !/^4\d\d$/.test(status));
  if (wrong !== undefined) {
    problems['delivery.retry.retry_4xx'] = `“${wrong}” is no status from 400 to 499`;
  }
  return { delays_seconds: delays, retry_4xx: statuses.map(Number) };
}

const numbers = [
  { from: 'perSecond', to: 'per_second', min: 0.1, max: 10_000, isWhole: false },
  { from: 'concurrency', to: 'concurrency', min: 1, max: Infinity, isWhole: true },
  { from: 'timeout', to: 'timeout_ms', min: 1000, max: 30_000, isWhole: true },
] as const;

function numbersOf(draft: StreamDraft, problems: Found): DeliveryOptionsSent {
  const sent: Record<string, number> = {};
  for (const { from, to, min, max, isWhole } of numbers) {
    const text = draft[from].trim();
    const value = Number(text);
    if (text === '') continue;
    sent[to] = value;
    if (!(value >= min && value <= max) || (isWhole && !Number.isInteger(value))) {
      const range = max === Infinity ? `${min} or more` : `from ${min} to ${max}`;
      problems[`delivery.${to}`] = `${isWhole ? 'A whole number' : 'A number'} ${range}`;
    }
  }
  return sent;
}

function headersOf({ headers }: StreamDraft, problems: Found): Record<string, string> {
  const sent = new Map<string, string>();
  const seen = new Set<string>();
  for (const { name, value } of headers) {
    if (name === '' && value === '') continue;
    const problem = headerProblem(name, value, seen);
    if (problem !== undefined) problems['delivery.headers'] ??= problem;
    seen.add(name.toLowerCase());
    sent.set(name, value);
  }
  if (sent.size > 20) problems['delivery.headers'] = `${sent.size} headers: there may be 20`;
  return Object.fromEntries(sent);
}

function headerProblem(name: string, value: string, seen: ReadonlySet<string>): string | undefined {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/.test(name)) return `“${name}” is no name of a header`;
  if (isReservedHeader(name)) return `Leat sets ${name} itself`;
  if (seen.has(name.toLowerCase())) return `${name} is there twice`;
  if (value === '' || value.length > 1024) return `${name} needs a value of 1 to 1024 characters`;
  return value === value.trim() ? undefined : `The value of ${name} has a blank at an end`;
}

function orderOf(
  { order, orderBy, blocks }: StreamDraft,
  problems: Found,
): Pick<DeliveryOptionsSent, 'order_by' | 'on_failure'> {
  if (order === 'none') return {};
  const pointer = order === 'all' ? '' : orderBy.trim();
  if (order === 'field' && (pointer === '' || fieldNames(pointer) === undefined)) {
    problems['delivery.order_by'] =
      'A path into the event, such as data.object.user_id or /data/object/user_id';
  }
  return { order_by: pointer, ...(blocks ? { on_failure: 'block' } : {}) };
}
