import { doneDismissal } from './failure-work.ts';
import type { ApiFixture } from './fixture.ts';
import { failed, type Fixture, retry } from '../store/contract/fixture.ts';

/** A request to each operation that the audit log records, in an order in which all succeed. */
export interface AuditedRequest {
  readonly operationId: string;
  readonly method: string;
  /** Below `/api/v2`. */
  readonly path: string;
  readonly body?: object | undefined;
  /** Ids that the entry must have among its targets. */
  readonly targets: readonly string[];
}

/** Returns a text that is like a secret; each call returns another one for the name. */
export type Secret = (name: string) => string;

interface Made {
  stream: string;
  client: string;
  api: string;
  grant: string;
  role: string;
  user: string;
  failure: string;
  replay: string;
  redelivery: string;
  dismissal: string;
}

type Next = (made: Made) => Omit<AuditedRequest, 'operationId' | 'targets'> & {
  readonly targets: () => readonly string[];
  /** Receives the body of the response. */
  readonly made?: (body: Readonly<Record<string, string>>) => void;
};

/**
 * Sends a request to each audited operation, secrets wherever a text is free. Calls `sent` after each
 * one with the response.
 */
export async function callAll(
  fixture: ApiFixture,
  storeFixture: Fixture,
  secret: Secret,
  sent: (request: AuditedRequest, response: Awaited<ReturnType<ApiFixture['send']>>) => void,
): Promise<void> {
  const made: Made = {
    stream: '',
    client: '',
    api: '',
    grant: '',
    role: '',
    user: '',
    failure: '',
    replay: '',
    redelivery: '',
    dismissal: '',
  };
  for (const [operationId, next] of Object.entries(requests(secret))) {
    if (operationId === 'redeliverEvent') made.failure = await failSome(storeFixture, made.stream);
    if (operationId === 'reopenDismissal') await doneDismissal(fixture, made.dismissal);
    const { made: note, targets, ...request } = next(made);
    const headers = {
      'user-agent': `Terraform/1.2 ${secret('user-agent')}`,
      'x-trace': secret('header'),
      cookie: secret('cookie'),
    };
    const response = await fixture.send(request.method, request.path, request.body, headers);
    note?.(response.body ?? {});
    sent({ operationId, ...request, targets: targets() }, response);
  }
}

/**
 * Publishes events to the stream: deliveries of three fail, and one waits for a retry. Returns the id of a
 * failure.
 */
async function failSome(storeFixture: Fixture, stream: string): Promise<string> {
  const found = await storeFixture.store.streams.get(storeFixture.tenant, stream);
  if (found === undefined) throw new Error('no stream');
  const types = Array<string>(4).fill('user.created');
  const [event, other, open, waits] = await storeFixture.publish(...types);
  if (!event || !other || !open || !waits) throw new Error('no event');
  const owned = await storeFixture.own(found);
  await storeFixture.settle(owned, {
    cursor: waits.offset,
    outcomes: [
      failed(event),
      failed(other),
      failed(open, { status: 410, error: '410 - gone' }),
      retry(waits, { delayMs: 3_600_000 }),
    ],
  });
  await storeFixture.retire();
  return event.id;
}

function requests(secret: Secret): Readonly<Record<string, Next>> {
  return {
    ...streamRequests(secret),
    ...accessRequests(secret),
    ...memberRequests(secret),
    ...deletions(),
  };
}

function streamRequests(secret: Secret): Record<string, Next> {
  const destination = (authorization: object, origin = 'https://hooks.example.net') => ({
    type: 'webhook',
    configuration: {
      webhook_endpoint: `${origin}/${secret('endpoint')}`,
      webhook_authorization: authorization,
    },
  });
  const path = ({ stream }: Made) => `/event-streams/${stream}`;
  return {
    createEventStream: (made) => ({
      method: 'POST',
      path: '/event-streams',
      body: {
        name: secret('stream name').slice(0, 60),
        subscriptions: [{ event_type: 'user.created' }],
        destination: destination({ method: 'bearer', token: secret('bearer') }),
      },
      targets: () => [made.stream],
      made: ({ id = '' }) => (made.stream = id),
    }),
    updateEventStream: (made) => ({
      method: 'PATCH',
      path: path(made),
      body: {
        destination: destination(
          { method: 'basic', username: secret('username'), password: secret('password') },
          `https://${made.stream}.inspector.invalid`,
        ),
      },
      targets: () => [made.stream],
    }),
    pauseEventStream: (made) => ({
      method: 'POST',
      path: `${path(made)}/pause`,
      body: { reason: secret('reason') },
      targets: () => [made.stream],
    }),
    resumeEventStream: (made) => ({
      method: 'POST',
      path: `${path(made)}/resume`,
      targets: () => [made.stream],
    }),
    sendTestAlert: () => ({ method: 'POST', path: '/alerts/test', targets: () => [] }),
    setReceivedAnswer: (made) => ({
      method: 'PUT',
      path: `${path(made)}/received/answer`,
      body: { status: 503, times: 3 },
      targets: () => [made.stream],
    }),
    readSigningSecret: (made) => ({
      method: 'GET',
      path: `${path(made)}/signing-secret`,
      targets: () => [made.stream],
    }),
    rotateSigningSecret: (made) => ({
      method: 'POST',
      path: `${path(made)}/signing-secret/rotate`,
      targets: () => [made.stream],
    }),
    sendTestEvent: (made) => ({
      method: 'POST',
      path: `${path(made)}/test`,
      body: { event_type: 'user.created', data: { token: secret('test data') } },
      targets: () => [made.stream],
    }),
    redeliverEvent: (made) => ({
      method: 'POST',
      path: `${path(made)}/redeliver/${made.failure}`,
      targets: () => [made.stream, made.failure],
    }),
    dismissEventDeliveries: (made) => ({
      method: 'POST',
      path: '/dismissals',
      body: { error_codes: ['http_410'] },
      targets: () => [made.stream],
      made: ({ id = '' }) => (made.dismissal = id),
    }),
    reopenDismissal: (made) => ({
      method: 'POST',
      path: `/dismissals/${made.dismissal}/reopen`,
      targets: () => [made.dismissal],
    }),
    startRedelivery: (made) => ({
      method: 'POST',
      path: '/redeliveries',
      body: { event_stream_ids: [made.stream] },
      targets: () => [made.stream],
      made: ({ id = '' }) => (made.redelivery = id),
    }),
    cancelRedelivery: (made) => ({
      method: 'DELETE',
      path: `/redeliveries/${made.redelivery}`,
      targets: () => [made.redelivery],
    }),
    redeliverEvents: (made) => ({
      method: 'POST',
      path: `${path(made)}/redeliver`,
      body: { event_types: ['user.created'] },
      targets: () => [made.stream],
    }),
    retryEventDeliveriesNow: (made) => ({
      method: 'POST',
      path: `${path(made)}/retry-now`,
      targets: () => [made.stream],
    }),
    startReplay: (made) => ({
      method: 'POST',
      path: `${path(made)}/replay`,
      body: { date_from: '2020-01-01T00:00:00Z' },
      targets: () => [made.stream],
      made: ({ id = '' }) => (made.replay = id),
    }),
    cancelReplay: (made) => ({
      method: 'DELETE',
      path: `${path(made)}/replay/${made.replay}`,
      targets: () => [made.stream, made.replay],
    }),
  };
}

function accessRequests(secret: Secret): Record<string, Next> {
  return {
    createUser: (made) => ({
      method: 'POST',
      path: '/users',
      body: {
        connection: 'Username-Password-Authentication',
        email: `${secret('email').slice(0, 40).toLowerCase()}@example.com`,
        password: `Aa1!${secret('user password')}`,
        user_metadata: { [secret('metadata name')]: secret('metadata') },
        nickname: secret('nickname'),
      },
      targets: () => [made.user],
      made: ({ user_id: id = '' }) => (made.user = id),
    }),
    updateUser: (made) => ({
      method: 'PATCH',
      path: `/users/${encodeURIComponent(made.user)}`,
      body: { password: `Aa1!${secret('new password')}` },
      targets: () => [made.user],
    }),
    createClient: (made) => ({
      method: 'POST',
      path: '/clients',
      body: { name: 'robot', global: true },
      targets: () => [made.client],
      made: ({ client_id: id = '' }) => (made.client = id),
    }),
    updateClient: (made) => ({
      method: 'PATCH',
      path: `/clients/${made.client}`,
      body: { name: 'renamed' },
      targets: () => [made.client],
    }),
    rotateClientSecret: (made) => ({
      method: 'POST',
      path: `/clients/${made.client}/rotate-secret`,
      targets: () => [made.client],
    }),
    createResourceServer: (made) => ({
      method: 'POST',
      path: '/resource-servers',
      body: {
        identifier: 'https://api.example',
        name: secret('API name'),
        scopes: [{ value: 'read:it', description: secret('scope description') }],
      },
      targets: () => [made.api],
      made: ({ id = '' }) => (made.api = id),
    }),
    updateResourceServer: (made) => ({
      method: 'PATCH',
      path: `/resource-servers/${made.api}`,
      body: {
        scopes: [{ value: 'read:it' }, { value: secret('scope'), description: secret('other') }],
      },
      targets: () => [made.api],
    }),
    createClientGrant: (made) => ({
      method: 'POST',
      path: '/client-grants',
      body: {
        client_id: made.client,
        audience: 'https://api.example',
        scope: [secret('granted scope')],
      },
      targets: () => [made.grant, made.client, made.api],
      made: ({ id = '' }) => (made.grant = id),
    }),
    updateClientGrant: (made) => ({
      method: 'PATCH',
      path: `/client-grants/${made.grant}`,
      body: { scope: [secret('changed scope')] },
      targets: () => [made.grant, made.client, made.api],
    }),
  };
}

function memberRequests(secret: Secret): Record<string, Next> {
  const permissions = {
    permissions: [
      { resource_server_identifier: 'https://api.example', permission_name: 'read:it' },
    ],
  };
  const path = ({ role }: Made) => `/roles/${role}`;
  return {
    createRole: (made) => ({
      method: 'POST',
      path: '/roles',
      body: { name: secret('role name').slice(0, 50), description: secret('role') },
      targets: () => [made.role],
      made: ({ id = '' }) => (made.role = id),
    }),
    updateRole: (made) => ({
      method: 'PATCH',
      path: path(made),
      body: { description: secret('description') },
      targets: () => [made.role],
    }),
    addRolePermissions: (made) => ({
      method: 'POST',
      path: `${path(made)}/permissions`,
      body: permissions,
      targets: () => [made.role, made.api],
    }),
    removeRolePermissions: (made) => ({
      method: 'DELETE',
      path: `${path(made)}/permissions`,
      body: permissions,
      targets: () => [made.role, made.api],
    }),
    addRoleUsers: (made) => ({
      method: 'POST',
      path: `${path(made)}/users`,
      body: { users: [made.user] },
      targets: () => [made.role, made.user],
    }),
    removeRoleUsers: (made) => ({
      method: 'DELETE',
      path: `${path(made)}/users`,
      body: { users: [made.user, secret('removed user')] },
      targets: () => [made.role, made.user],
    }),
    addRoleClients: (made) => ({
      method: 'POST',
      path: `${path(made)}/clients`,
      body: { clients: [made.client] },
      targets: () => [made.role, made.client],
    }),
    removeRoleClients: (made) => ({
      method: 'DELETE',
      path: `${path(made)}/clients`,
      body: { clients: [made.client, secret('removed client')] },
      targets: () => [made.role, made.client],
    }),
  };
}

function deletions(): Record<string, Next> {
  const deletion = (path: string, ...targets: string[]) => ({
    method: 'DELETE',
    path,
    targets: () => targets,
  });
  return {
    deleteRole: ({ role }) => deletion(`/roles/${role}`, role),
    deleteClientGrant: ({ grant, client }) => deletion(`/client-grants/${grant}`, grant, client),
    deleteResourceServer: ({ api }) => deletion(`/resource-servers/${api}`, api),
    deleteClient: ({ client }) => deletion(`/clients/${client}`, client),
    deleteUser: ({ user }) => deletion(`/users/${encodeURIComponent(user)}`, user),
    deleteEventStream: ({ stream }) => deletion(`/event-streams/${stream}`, stream),
  };
}
