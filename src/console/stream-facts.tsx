import type { DeliveryOptionsSent } from '../schemas/delivery-options.ts';
import type { StreamShown } from '../schemas/streams.ts';
import { type Condition, filterWords } from './filter-words.ts';
import { count, plural } from './parts/numbers.ts';
import { retryWords } from './retry-times.ts';
import { useServiceDelays } from './service-retry.ts';

/** How a stream delivers, in few lines. */
export function DeliveryFacts({ destination, subscriptions, delivery = {} }: StreamShown) {
  const { filter, per_second: perSecond } = delivery;
  const ofService = useServiceDelays(delivery.retry === undefined);
  return (
    <dl class="facts">
      <dt>Endpoint</dt>
      <dd>
        <code>{destination.configuration.webhook_endpoint}</code>
      </dd>
      <dt>Event types</dt>
      <dd>
        <EventTypes types={subscriptions.map(({ event_type: type }) => type)} />
      </dd>
      {filter !== undefined && (
        <>
          <dt>Only events where</dt>
          <dd>
            <FilterInWords filter={filter as Condition} />
          </dd>
        </>
      )}
      <dt>Order</dt>
      <dd>{orderWords(delivery)}</dd>
      <dt>Retries</dt>
      <dd>{retryWords(delivery.retry, ofService)}</dd>
      {perSecond !== undefined && (
        <>
          <dt>Rate</dt>
          <dd>
            {Number.isInteger(perSecond) ? count(perSecond) : perSecond} attempts per second at most
          </dd>
        </>
      )}
    </dl>
  );
}

const typesShown = 12;

/** Lists event types; the rest of many behind a switch. */
export function EventTypes({ types }: { readonly types: readonly string[] }) {
  if (types.length === 0) return <span class="muted">none: it sends nothing</span>;
  const rest = types.slice(typesShown);
  return (
    <>
      <TypeList types={types.slice(0, typesShown)} />
      {rest.length > 0 && (
        <details>
          <summary>{plural(rest.length, 'more type')}</summary>
          <TypeList types={rest} />
        </details>
      )}
    </>
  );
}

function TypeList({ types }: { readonly types: readonly string[] }) {
  return (
    <ul class="types">
      {types.map((type) => (
        <li key={type}>
          <code>{type}</code>
        </li>
      ))}
    </ul>
  );
}

/** Says what must hold of an event to be sent. */
export function FilterInWords({ filter }: { readonly filter: Condition }) {
  const parts = filterWords(filter);
  if (parts.length === 0) return <span>anything (the filter is empty)</span>;
  return (
    <ul class="stack-tight">
      {parts.map((part, index) => (
        <li key={part}>
          {index > 0 && <span class="muted">and </span>}
          {part}
        </li>
      ))}
    </ul>
  );
}

/** Returns the order of a stream in words. */
export function orderWords({
  order_by: orderBy,
  on_failure: onFailure,
}: DeliveryOptionsSent): string {
  if (orderBy === undefined) return 'None: events are sent at once, a failed one delays no other';
  const events = orderBy === '' ? 'All events' : `Events with the same ${orderBy}`;
  const after =
    onFailure === 'block'
      ? 'after a failure they wait until it is repaired'
      : 'after a failure the next one follows';
  return `${events} one after the other; ${after}`;
}
