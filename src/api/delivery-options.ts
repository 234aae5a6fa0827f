import { filterOf } from './filter.ts';
import { badBody, quoted } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { fieldNames } from '../core/field-path.ts';
import { isReservedHeader } from '../core/reserved-headers.ts';
import type { DeliveryOptions, RetryOption } from '../core/types.ts';
import type { DeliveryOptionsSent } from '../schemas/delivery-options.ts';

type Limits = Pick<ApiSettings, 'streamConcurrency'>;

/**
 * Checks the options of a stream beyond their schema. Returns `undefined` where nothing is set.
 * Throws 400.
 */
export function deliveryOptionsOf(
  sent: DeliveryOptionsSent,
  settings: Limits,
): DeliveryOptions | undefined {
  const { retry, per_second: perSecond, headers, concurrency, signature } = sent;
  const { timeout_ms: timeoutMs, order_by: orderBy, on_failure: onFailure } = sent;
  checkHeaders(headers);
  checkOrder(orderBy, onFailure);
  checkConcurrency(concurrency, settings);
  const options: DeliveryOptions = {
    ...(retry === undefined ? {} : { retry: retryOf(retry) }),
    ...(perSecond === undefined ? {} : { perSecond }),
    ...(headers !== undefined && Object.keys(headers).length > 0 ? { headers } : {}),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(signature === undefined ? {} : { signature }),
    ...(orderBy === undefined ? {} : { orderBy }),
    ...(onFailure === undefined ? {} : { onFailure }),
  };
  return Object.keys(options).length === 0 ? undefined : options;
}

/**
 * Returns the filter as JSON text: null where the options have none, `undefined` where they are not
 * sent. Throws 400.
 */
export function filterTextOf(
  sent: DeliveryOptionsSent | null | undefined,
): string | null | undefined {
  if (sent === undefined) return undefined;
  return sent?.filter === undefined ? null : filterOf(sent.filter, 'delivery.filter').json;
}

/** Returns the options and the filter for a response; `undefined` where nothing is set. */
export function showDelivery(
  options: DeliveryOptions | undefined,
  filter: string | undefined,
): DeliveryOptionsSent | undefined {
  if (options === undefined && filter === undefined) return undefined;
  const { retry, perSecond, headers, concurrency, timeoutMs, signature } = options ?? {};
  const { orderBy, onFailure } = options ?? {};
  return {
    ...(filter === undefined ? {} : { filter: JSON.parse(filter) as object }),
    ...(retry === undefined ? {} : { retry: showRetry(retry) }),
    ...(perSecond === undefined ? {} : { per_second: perSecond }),
    ...(headers === undefined ? {} : { headers }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(timeoutMs === undefined ? {} : { timeout_ms: timeoutMs }),
    ...(signature === undefined ? {} : { signature }),
    ...(orderBy === undefined ? {} : { order_by: orderBy }),
    ...(onFailure === undefined ? {} : { on_failure: onFailure }),
  };
}

function retryOf(sent: NonNullable<DeliveryOptionsSent['retry']>): RetryOption {
  if (typeof sent === 'string') return sent;
  const { delays_seconds: delaysSeconds, retry_4xx: retry4xx } = sent;
  return { delaysSeconds, ...(retry4xx === undefined ? {} : { retry4xx }) };
}

function showRetry(retry: RetryOption): NonNullable<DeliveryOptionsSent['retry']> {
  if (typeof retry === 'string') return retry;
  const { delaysSeconds, retry4xx } = retry;
  const shown = { delays_seconds: [...delaysSeconds] };
  return retry4xx === undefined ? shown : { ...shown, retry_4xx: [...retry4xx] };
}

function checkHeaders(headers: DeliveryOptionsSent['headers'] = {}): void {
  const seen = new Set<string>();
  for (const name of Object.keys(headers)) {
    const reason = headerViolation(name, seen);
    if (reason !== undefined) throw badBody(reason, `delivery.headers.${name}`, headersText);
    seen.add(name.toLowerCase());
  }
}

const headersText = 'Headers of every request, by name';

function headerViolation(name: string, seen: ReadonlySet<string>): string | undefined {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$/.test(name)) {
    return `Not the name of a header: ${quoted(name)}`;
  }
  if (isReservedHeader(name)) return `Header not allowed: ${quoted(name)}`;
  if (seen.has(name.toLowerCase())) return `Header sent twice: ${quoted(name)}`;
  return undefined;
}

function checkOrder(orderBy: string | undefined, onFailure: DeliveryOptions['onFailure']): void {
  if (orderBy === undefined && onFailure !== undefined) {
    const reason = 'on_failure is sent without order_by: only ordered events wait for a failure';
    throw badBody(reason, 'delivery.on_failure', 'What follows a failed event');
  }
  if (orderBy === undefined || isPath(orderBy)) return;
  const reason = `No path, such as data.object.user_id or /data/object/user_id (RFC 6901): ${quoted(orderBy)}`;
  throw badBody(
    reason,
    'delivery.order_by',
    'Where events have the value that they are ordered by',
  );
}

/** With dots it begins with an attribute of the envelope (CloudEvents 1.0.2 section 3.1), unlike `$.data`. */
function isPath(text: string): boolean {
  const [first] = fieldNames(text) ?? [];
  if (text === '' || text.startsWith('/')) return text === '' || first !== undefined;
  return first !== undefined && /^[a-z0-9]+$/.test(first);
}

function checkConcurrency(concurrency: number | undefined, { streamConcurrency }: Limits): void {
  if (concurrency === undefined || concurrency <= streamConcurrency) return;
  const reason = `Value ${concurrency} is greater than maximum ${streamConcurrency} (LEAT_STREAM_CONCURRENCY)`;
  throw badBody(reason, 'delivery.concurrency', 'Requests at once');
}
