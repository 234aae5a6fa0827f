import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { managementScopes } from '../../src/auth/scopes.ts';
import { type Cluster, startCluster } from '../helpers/cluster.ts';
import { fetchToken, runLeat, type Running, secretKey, waitFor } from '../helpers/leat.ts';
import { openPull } from '../helpers/pull.ts';

const audience = 'https://localhost:4444/api/v2/';

/** A global client with every scope, its grant, and a token of it. */
interface Manager {
  readonly id: string;
  readonly grant: string;
  readonly token: string;
}

async function createManager(node: Running): Promise<Manager> {
  const client = await created(node, '/api/v2/clients', { name: 'manager', global: true });
  const { client_id: id = '', client_secret: secret = '' } = client;
  const granted = { client_id: id, audience, scope: managementScopes };
  const { id: grant = '' } = await created(node, '/api/v2/client-grants', granted);
  return { id, grant, token: await fetchToken(node.url, { id, secret }) };
}

async function created(node: Running, path: string, body: object): Promise<Record<string, string>> {
  const response = await node.send('POST', path, body);
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()) as Record<string, string>;
}

/** What a client that has just lost its rights tries at a node; returns the statuses. */
async function attack(node: Running, { id, grant, token }: Manager): Promise<number[]> {
  const requests: [method: string, path: string, body?: object][] = [
    ['POST', '/client-grants', { client_id: id, audience, scope: ['read:users'] }],
    ['PATCH', `/client-grants/${grant}`, { scope: [...managementScopes] }],
    ['POST', '/clients', { name: 'back door', global: true }],
    ['PATCH', `/clients/${id}`, { global: true }],
    ['POST', `/clients/${id}/rotate-secret`],
    ['DELETE', '/clients/operator'],
  ];
  const statuses: number[] = [];
  for (const [method, path, body] of requests) {
    const response = await fetch(`${node.url}/api/v2${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    statuses.push(response.status);
  }
  return statuses;
}

function readUsers(node: Running, token: string): Promise<Response> {
  return fetch(`${node.url}/api/v2/users`, { headers: { authorization: `Bearer ${token}` } });
}

describe('revocation on all nodes', () => {
  for (const pooled of [false, true]) {
    const how = pooled ? ', also without LISTEN between nodes' : '';

    test(`a manager whose grant was deleted at one node cannot restore itself at another${how}`, async (t) => {
      const cluster = await startCluster(t, { pooled });
      const one = await cluster.start();
      const other = await cluster.start();
      const manager = await createManager(one);
      assert.equal((await readUsers(other, manager.token)).status, 200);
      const pull = await openPull(`${other.url}/api/v2/events`, manager.token);
      assert.equal(pull.status, 200);
      const deleted = await one.send('DELETE', `/api/v2/client-grants/${manager.grant}`);
      assert.equal(deleted.status, 204);
      assert.deepEqual(await attack(other, manager), [403, 403, 403, 403, 403, 403]);
      const isRefused = async (): Promise<boolean> =>
        (await readUsers(other, manager.token)).status === 403;
      await waitFor('the token to have no scope', isRefused);
      assert.equal(await pull.ended, 'complete');
    });

    test(`a token from before its secret was rotated at one node is refused at another${how}`, async (t) => {
      const cluster = await startCluster(t, { pooled });
      const one = await cluster.start();
      const other = await cluster.start();
      const manager = await createManager(one);
      const pull = await openPull(`${other.url}/api/v2/events`, manager.token);
      assert.equal(pull.status, 200);
      const path = `/api/v2/clients/${manager.id}/rotate-secret`;
      const rotated = (await (await one.send('POST', path)).json()) as { client_secret: string };
      assert.deepEqual(await attack(other, manager), [401, 401, 401, 401, 401, 401]);
      const isRefused = async (): Promise<boolean> =>
        (await readUsers(other, manager.token)).status === 401;
      await waitFor('the token to be refused', isRefused);
      assert.equal(await pull.ended, 'complete');
      const next = { id: manager.id, secret: rotated.client_secret };
      const token = await fetchToken(other.url, next);
      for (const node of [one, other]) assert.equal((await readUsers(node, token)).status, 200);
    });
  }

  test('changes that race with the revocation of their caller are committed before it or not at all', async (t) => {
    const cluster = await startCluster(t);
    const one = await cluster.start();
    const other = await cluster.start();
    const revocations: ((
      manager: Manager,
    ) => readonly [method: string, path: string, body?: object])[] = [
      ({ grant }) => ['DELETE', `/client-grants/${grant}`],
      ({ grant }) => ['PATCH', `/client-grants/${grant}`, { scope: ['read:users'] }],
      ({ id }) => ['PATCH', `/clients/${id}`, { global: false }],
      ({ id }) => ['POST', `/clients/${id}/rotate-secret`],
      ({ id }) => ['DELETE', `/clients/${id}`],
    ];
    for (const revocationOf of revocations) {
      const manager = await createManager(one);
      const racing = [];
      for (let round = 0; round < 12; round += 1) racing.push(...race([one, other], manager));
      const [method, path, body] = revocationOf(manager);
      const revoked = await one.send(method, `/api/v2${path}`, body);
      assert.ok(revoked.ok, `${revoked.status}`);
      const atRevocation = await accessOf(cluster);
      const late = race([one, other], manager);
      const statuses = await Promise.all([...racing, ...late]);
      assert.deepEqual(await accessOf(cluster), atRevocation, path);
      for (const status of statuses) assert.ok(status < 500, `${status}`);
    }
  });

  test('after a signing key was revoked at one node, its tokens change no access at another', async (t) => {
    // Without LISTEN the other node reads the keys only every 5 s.
    const cluster = await startCluster(t, { pooled: true });
    const one = await cluster.start();
    const other = await cluster.start();
    const manager = await createManager(one);
    assert.equal((await readUsers(other, manager.token)).status, 200);
    const { kid } = JSON.parse(
      Buffer.from(manager.token.split('.')[0] ?? '', 'base64url').toString(),
    ) as { kid: string };
    const env = { LEAT_STORE: cluster.url, LEAT_SECRET_KEY: secretKey.toString('base64') };
    const { code, output } = await runLeat(['keys', 'revoke', kid], env);
    assert.equal(code, 0, output);
    assert.deepEqual(await attack(other, manager), [401, 401, 401, 401, 401, 401]);
  });
});

/** Begins what leaves a back door, at several nodes; resolves to the statuses. */
function race(nodes: readonly Running[], { id, grant, token }: Manager): Promise<number>[] {
  const send = async (node: Running, method: string, path: string, body?: object) => {
    const response = await fetch(`${node.url}/api/v2${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    await response.arrayBuffer();
    return response.status;
  };
  return nodes.flatMap((node) => [
    send(node, 'POST', '/client-grants', { client_id: id, audience, scope: managementScopes }),
    send(node, 'PATCH', `/client-grants/${grant}`, { scope: managementScopes }),
    send(node, 'POST', '/clients', { name: 'back door', global: true }),
    send(node, 'PATCH', `/clients/${id}`, { global: true }),
    send(node, 'PATCH', `/clients/${id}`, { name: 'renamed' }),
  ]);
}

/** Returns everything in the store that decides what clients may do. */
async function accessOf(cluster: Cluster): Promise<unknown> {
  return [
    await cluster.query('select * from clients order by tenant, id'),
    await cluster.query('select * from grants order by tenant, id'),
  ];
}
