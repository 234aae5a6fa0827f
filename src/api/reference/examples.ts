/**
 * Example bodies for operations whose schema does not suggest one, by operation id and media type.
 * Each is valid; the reference page offers it.
 */
export const bodyExamples: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  createEventStream: json({
    name: 'crm',
    subscriptions: [{ event_type: 'user.created' }, { event_type: 'order.paid' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'https://hooks.example.com/leat',
        webhook_authorization: { method: 'bearer', token: 'a secret of yours' },
      },
    },
  }),
  updateEventStream: json({ status: 'enabled', resume: 'latest' }),
  sendTestEvent: json({ event_type: 'user.created' }),
  redeliverEvents: json({ event_types: ['user.created'] }),
  dismissEventDeliveries: json({ error_codes: ['http_410'], dry_run: true }),
  publishEvents: {
    ...json({ type: 'order.paid', data: { object: { order_id: '42' } }, id: 'order-42-paid' }),
    'application/cloudevents+json': cloudEvent('42'),
    'application/cloudevents-batch+json': [cloudEvent('42'), cloudEvent('43')],
  },
  createUser: json({
    email: 'ada@example.com',
    password: 'correct-horse-battery',
    connection: 'Username-Password-Authentication',
  }),
  updateUser: json({ nickname: 'ada', user_metadata: { theme: 'dark' } }),
  createClient: json({ name: 'billing' }),
  updateClient: json({ name: 'billing', global: true }),
  createResourceServer: json({
    identifier: 'https://orders.example.com',
    name: 'Orders',
    scopes: [{ value: 'read:orders', description: 'Read orders' }],
  }),
  updateResourceServer: json({ enforce_policies: true, token_dialect: 'access_token_authz' }),
};

function json(body: object): Readonly<Record<string, unknown>> {
  return { 'application/json': body };
}

function cloudEvent(id: string): object {
  return {
    specversion: '1.0',
    id: `order-${id}-paid`,
    source: 'urn:shop:',
    type: 'order.paid',
    data: { object: { order_id: id } },
  };
}
