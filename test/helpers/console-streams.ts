import { destination, token } from './api-client.ts';
import type { Behaviour, ConsoleReceivers } from './console-receivers.ts';

/** The event streams of an installation with much to see, by the name that tests use. */

interface StreamSpec {
  /** The key unless given. */
  readonly name?: string;
  readonly types: readonly string[];
  /** `inspector` for one of its own. */
  readonly to: readonly [Behaviour, string] | 'inspector';
  readonly delivery?: Readonly<Record<string, unknown>>;
  readonly authorization?: (receivers: ConsoleReceivers) => Record<string, string>;
}

/** Slow enough that what waits is still there at the end of a test. */
const slow = { per_second: 0.1 };

const specs = {
  billing: {
    types: ['invoice.issued', 'invoice.voided', 'payment.captured'],
    to: ['http', '/billing'],
    delivery: { signature: 'v1 v1a', headers: { 'X-Environment': 'production' } },
  },
  'audit-archive': {
    types: [
      'order.paid',
      'order.cancelled',
      'invoice.issued',
      'invoice.voided',
      'payment.captured',
      'parcel.sent',
      'user.created',
      'user.updated',
      'user.deleted',
    ],
    to: ['http', '/archive'],
  },
  'warehouse-orders': {
    types: ['order.paid', 'order.cancelled'],
    to: ['http', '/warehouse/orders'],
  },
  'crm-contacts': {
    types: ['contact.updated', 'contact.deleted', 'contact.merged'],
    to: ['http', '/crm/contacts'],
    authorization: () => ({ method: 'basic', username: 'leat', password: 'a password of the CRM' }),
  },
  'search-index': { types: ['product.updated'], to: ['http', '/search'], delivery: slow },
  'email-campaigns': { types: ['user.created', 'user.updated'], to: ['http', '/campaigns'] },
  'legacy-erp': { types: ['order.paid', 'invoice.issued'], to: ['http', '/erp'] },
  'partner-feed-acme': {
    types: ['stock.changed'],
    to: ['http', '/partners/acme'],
    authorization: () => ({
      method: 'custom_header',
      header_key: 'X-Api-Key',
      header_value: 'a key of the partner',
    }),
  },
  'fraud-scoring': {
    types: ['payment.reviewed'],
    to: ['silent', '/score'],
    delivery: { timeout_ms: 1000, retry: { delays_seconds: [1] } },
  },
  'sms-gateway': { types: ['parcel.delayed'], to: ['dns', '/sms'] },
  'label-printer': { types: ['parcel.packed'], to: ['refused', '/labels'] },
  'loyalty-points': { types: ['loyalty.earned'], to: ['reset', '/points'] },
  'tax-reports': { types: ['tax.reported'], to: ['tls', '/reports'] },
  'mainframe-bridge': { types: ['ledger.booked'], to: ['protocol', '/bridge'] },
  'intranet-wiki': { types: ['article.published'], to: ['blocked', '/hooks'] },
  'data-lake': {
    types: ['payment.settled'],
    to: ['http', '/lake'],
    authorization: (receivers) => ({
      method: 'oauth2_client_credentials',
      token_endpoint: receivers.url('http', '/token'),
      client_id: 'leat-production',
      client_secret: 'a secret of the lake',
      scope: 'events:write',
    }),
  },
  'pro-plan-onboarding': {
    types: ['subscription.started', 'user.created'],
    to: ['http', '/onboarding'],
    delivery: {
      filter: {
        type: 'subscription.started',
        'data.object.plan': { $in: ['pro', 'team', 'enterprise'] },
      },
    },
  },
  'inventory-sync': {
    types: ['stock.counted'],
    to: ['http', '/inventory'],
    delivery: { order_by: '/data/object/sku', on_failure: 'block' },
  },
  'shipping-notifications': {
    types: ['parcel.sent'],
    to: ['http', '/shipping'],
    delivery: { retry: 'hours' },
  },
  'subscription-renewals': {
    types: ['subscription.renewed'],
    to: ['http', '/renewals'],
    delivery: { retry: { delays_seconds: [5, 30, 120, 600, 3600], retry_4xx: [408, 425, 429] } },
  },
  'nightly-export': { types: ['export.row'], to: ['http', '/exports'] },
  'returns-desk': { types: ['return.requested'], to: ['http', '/returns'] },
  'analytics-replica': { types: ['payment.captured'], to: ['http', '/analytics'], delivery: slow },
  'inspector-playground': {
    types: ['order.paid', 'subscription.started'],
    to: 'inspector',
    delivery: { signature: 'v1 v1a' },
  },
  'inspector-flaky': {
    types: ['demo.flaky'],
    to: 'inspector',
    delivery: { retry: { delays_seconds: [1] } },
  },
  'long-name': {
    name: 'eu-central-1-production-customer-identity-mirror-of-the-regulatory-reporting-department-including-its-subsidiaries-and-branches',
    types: ['user.created', 'user.deleted'],
    to: ['http', '/eu/central/1/production/mirror/of/the/regulatory/reporting/department'],
  },
  unicode: {
    name: 'Überweisungen – Zahlungsabgleich 決済 (Łódź)',
    types: ['payment.captured', 'invoice.issued'],
    to: ['http', '/zahlungsabgleich'],
  },
} as const satisfies Record<string, StreamSpec>;

export type StreamKey = keyof typeof specs;

export const streamKeys = Object.keys(specs) as readonly StreamKey[];

/** Returns the types that a stream subscribes to. */
export function typesOf(key: StreamKey): readonly string[] {
  return specs[key].types;
}

/** Returns the body that creates a stream. */
export function consoleStream(key: StreamKey, receivers: ConsoleReceivers): object {
  const { name = key, types, to, delivery, authorization }: StreamSpec = specs[key];
  const endpoint = to === 'inspector' ? 'https://new.inspector.invalid/' : receivers.url(...to);
  return {
    name,
    subscriptions: types.map((type) => ({ event_type: type })),
    destination: destination(endpoint, authorization?.(receivers) ?? { method: 'bearer', token }),
    ...(delivery === undefined ? {} : { delivery }),
  };
}
