import type { StreamShown } from '../schemas/streams.ts';
import { draftOfFilter, type FilterDraft } from './filter-draft.ts';
import type { Condition } from './filter-words.ts';
import { delaysSecondsOf, type RetrySent, writeDelays } from './retry-times.ts';

export type Authorization = StreamShown['destination']['configuration']['webhook_authorization'];

/** The settings of a stream while they are edited: texts as typed. */
export interface StreamDraft {
  readonly name: string;
  readonly types: readonly string[];
  /** Event types that are typed and not added yet; saving adds them. */
  readonly moreTypes: string;
  readonly endpoint: string;
  readonly method: Authorization['method'];
  readonly username: string;
  readonly headerKey: string;
  readonly tokenEndpoint: string;
  readonly clientId: string;
  readonly scope: string;
  readonly audience: string;
  /** The password, token, value or client secret; empty to keep the present one. */
  readonly secret: string;
  readonly certificate: 'keep' | 'none' | 'replace';
  readonly certificatePem: string;
  readonly privateKey: string;
  readonly retry: 'default' | 'quick' | 'hours' | 'days' | 'own';
  readonly delays: string;
  readonly retry4xx: string;
  readonly filter: FilterDraft;
  readonly order: 'none' | 'field' | 'all';
  readonly orderBy: string;
  readonly blocks: boolean;
  readonly perSecond: string;
  readonly concurrency: string;
  readonly timeout: string;
  /** Empty for `v1`, the default. */
  readonly signature: '' | 'v1a' | 'v1 v1a';
  readonly headers: readonly HeaderDraft[];
}

export interface HeaderDraft {
  readonly name: string;
  readonly value: string;
}

/** Begins to edit the settings of a stream. */
export function draftOf(stream: StreamShown): StreamDraft {
  const { configuration } = stream.destination;
  return {
    name: stream.name,
    types: stream.subscriptions.map(({ event_type: type }) => type),
    moreTypes: '',
    endpoint: configuration.webhook_endpoint,
    ...authorizationDraft(configuration.webhook_authorization),
    certificate: configuration.client_certificate === undefined ? 'none' : 'keep',
    certificatePem: '',
    privateKey: '',
    ...deliveryDraft(stream.delivery ?? {}),
  };
}

function authorizationDraft(shown: Authorization) {
  const client = shown.method === 'oauth2_client_credentials' ? shown : undefined;
  return {
    method: shown.method,
    username: shown.method === 'basic' ? shown.username : '',
    headerKey: shown.method === 'custom_header' ? shown.header_key : '',
    tokenEndpoint: client?.token_endpoint ?? '',
    clientId: client?.client_id ?? '',
    scope: client?.scope ?? '',
    audience: client?.audience ?? '',
    secret: '',
  };
}

function deliveryDraft(delivery: NonNullable<StreamShown['delivery']>) {
  const { order_by: orderBy, retry, filter } = delivery;
  return {
    ...retryDraft(retry),
    filter: draftOfFilter(filter as Condition | undefined),
    order: orderOf(orderBy),
    orderBy: orderBy ?? '',
    blocks: delivery.on_failure === 'block',
    perSecond: textOf(delivery.per_second),
    concurrency: textOf(delivery.concurrency),
    timeout: textOf(delivery.timeout_ms),
    signature: delivery.signature === 'v1' ? ('' as const) : (delivery.signature ?? ('' as const)),
    headers: Object.entries(delivery.headers ?? {}).map(([name, value]) => ({ name, value })),
  };
}

function orderOf(orderBy: string | undefined): StreamDraft['order'] {
  if (orderBy === undefined) return 'none';
  return orderBy === '' ? 'all' : 'field';
}

function retryDraft(
  retry: RetrySent | undefined,
): Pick<StreamDraft, 'retry' | 'delays' | 'retry4xx'> {
  const delays = writeDelays(delaysSecondsOf(retry ?? 'hours'));
  if (typeof retry !== 'object') return { retry: retry ?? 'default', delays, retry4xx: '408, 429' };
  return { retry: 'own', delays, retry4xx: statusesText(retry.retry_4xx) };
}

function textOf(value: number | undefined): string {
  return value === undefined ? '' : String(value);
}

/** Without statuses the setting of the operator holds; none at all is something else. */
function statusesText(statuses: readonly number[] | undefined): string {
  if (statuses === undefined) return '';
  return statuses.length === 0 ? noStatuses : statuses.join(', ');
}

export const noStatuses = 'none';

/** Returns the event types of a draft. */
export function typesOf({ types, moreTypes }: StreamDraft): readonly string[] {
  const more = moreTypes.split(/[\s,]+/).filter((word) => word !== '');
  return [...types, ...more.filter((type) => !types.includes(type))];
}
