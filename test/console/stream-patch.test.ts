import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withText } from '../../src/console/filter-draft.ts';
import { updateCommand, withoutSecrets } from '../../src/console/stream-command.ts';
import { draftOf, type StreamDraft } from '../../src/console/stream-draft.ts';
import { changesOf, fieldOf, problemOf } from '../../src/console/stream-patch.ts';
import type { StreamShown } from '../../src/schemas/streams.ts';

const stream: StreamShown = {
  id: 'est_MASi45ub7Qe4ZE36UT5G6c',
  status: 'enabled',
  name: 'crm',
  subscriptions: [{ event_type: 'user.created' }],
  created_at: '2026-03-01T09:30:00.000Z',
  updated_at: '2026-03-01T09:30:00.000Z',
  destination: {
    type: 'webhook',
    configuration: {
      webhook_endpoint: 'https://crm.example.com/hook',
      webhook_authorization: { method: 'basic', username: 'leat' },
    },
  },
  delivery: {
    retry: { delays_seconds: [5, 60], retry_4xx: [] },
    order_by: '/data/id',
    on_failure: 'continue',
    headers: { 'X-Environment': 'test' },
  },
};

const edited = (changes: Partial<StreamDraft>) =>
  changesOf(stream, { ...draftOf(stream), ...changes });

test('changesOf: a draft that was not touched changes nothing', () => {
  assert.deepEqual(changesOf(stream, draftOf(stream)), { patch: {}, problems: {} });
});

test('changesOf: sends only what differs', () => {
  assert.deepEqual(edited({ name: 'crm-2' }), { patch: { name: 'crm-2' }, problems: {} });
  assert.deepEqual(edited({ name: ' crm-2 ' }), { patch: { name: 'crm-2' }, problems: {} });
  assert.deepEqual(edited({ moreTypes: 'user.updated, user.created' }).patch, {
    subscriptions: [{ event_type: 'user.created' }, { event_type: 'user.updated' }],
  });
});

test('changesOf: options of delivery are replaced together', () => {
  assert.deepEqual(edited({ timeout: '2000' }).patch, {
    delivery: {
      retry: { delays_seconds: [5, 60], retry_4xx: [] },
      order_by: '/data/id',
      headers: { 'X-Environment': 'test' },
      timeout_ms: 2000,
    },
  });
  const none = { retry: 'default', order: 'none', headers: [] } as const;
  assert.deepEqual(edited(none).patch, { delivery: null });
});

test('changesOf: a new secret alone changes the destination', () => {
  const { patch, problems } = edited({ secret: 'new' });
  assert.deepEqual(patch.destination?.configuration.webhook_authorization, {
    method: 'basic',
    username: 'leat',
    password: 'new',
  });
  assert.deepEqual(problems, {});
});

test('changesOf: another endpoint or user name needs the secret again', () => {
  for (const changes of [{ endpoint: 'https://other.example/' }, { username: 'ada' }]) {
    assert.deepEqual(Object.keys(edited(changes).problems), [
      'destination.configuration.webhook_authorization',
    ]);
    assert.deepEqual(edited({ ...changes, secret: 's' }).problems, {});
  }
});

const wrong: readonly [string, Partial<StreamDraft>][] = [
  ['name', { name: ' ' }],
  ['subscriptions', { moreTypes: 'User Created' }],
  ['destination.configuration.webhook_endpoint', { endpoint: 'crm', secret: 's' }],
  [
    'destination.configuration.webhook_authorization.header_key',
    { method: 'custom_header', headerKey: 'Host', secret: 's' },
  ],
  ['delivery.retry', { delays: 'soon' }],
  ['delivery.retry.retry_4xx', { retry4xx: '503' }],
  ['delivery.filter', { filter: withText('{"a":{"$regex":"x"}}') }],
  ['delivery.order_by', { orderBy: 'data..id' }],
  ['delivery.per_second', { perSecond: '0' }],
  ['delivery.concurrency', { concurrency: '1.5' }],
  ['delivery.timeout_ms', { timeout: '999' }],
  ['delivery.headers', { headers: [{ name: 'webhook-id', value: 'x' }] }],
  ['delivery.headers', { headers: [{ name: 'a b', value: 'x' }] }],
  ['delivery.headers', { headers: [{ name: 'A', value: '' }] }],
  [
    'delivery.headers',
    {
      headers: [
        { name: 'A', value: '1' },
        { name: 'a', value: '2' },
      ],
    },
  ],
];

for (const [field, changes] of wrong) {
  test(`changesOf: ${JSON.stringify(changes)} is a problem of ${field}`, () => {
    assert.deepEqual(Object.keys(edited(changes).problems), [field]);
  });
}

test('problemOf: an error of the server is shown at its field', () => {
  const message =
    "Payload validation error: 'Header not allowed: Host' on property delivery.headers.Host (Headers of every request, by name).";
  assert.deepEqual(problemOf(message, 'invalid_body'), {
    'delivery.headers': 'Header not allowed: Host',
  });
  assert.deepEqual(problemOf('Event stream name already in use.', 'stream_name_in_use'), {
    name: 'Event stream name already in use.',
  });
  assert.equal(problemOf('Nothing of this form', undefined), undefined);
  assert.equal(
    fieldOf('destination.configuration.webhook_authorization.password'),
    'destination.configuration.webhook_authorization',
  );
  assert.equal(fieldOf('delivery.retry.delays_seconds.0'), 'delivery.retry');
});

test('updateCommand: secrets come from files, and are not shown', () => {
  const { patch } = edited({ secret: 'hunter2', name: 'crm two' });
  assert.ok(!JSON.stringify(withoutSecrets(patch)).includes('hunter2'));
  assert.equal(
    updateCommand('crm', patch, stream).replaceAll(' \\\n  ', ' '),
    "leat streams update crm --name 'crm two' --endpoint https://crm.example.com/hook --basic-user leat --basic-password-file password.txt",
  );
});

test('updateCommand: names the options that change, as the command keeps all others', () => {
  const { patch } = edited({ order: 'none', timeout: '2000' });
  assert.equal(
    updateCommand('crm', patch, stream).replaceAll(' \\\n  ', ' '),
    `leat streams update crm --delivery '{"order_by":null,"on_failure":null,"timeout_ms":2000}' --yes`,
  );
});
