import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { type Cluster, startCluster } from '../helpers/cluster.ts';
import { runLeat, type Running, spawnLeat, end, waitFor } from '../helpers/leat.ts';
import { createQuota } from '../helpers/quota.ts';
import {
  addSealedStreams,
  beginRotation,
  openAll,
  type TestKey,
  testKey,
  withStore,
} from '../helpers/secrets.ts';
import { createStream, publish, publishOn, startCountingReceiver } from '../helpers/traffic.ts';

/** A change of LEAT_SECRET_KEY while nodes on PostgreSQL publish and deliver. */

const [one, two] = [testKey(1), testKey(2)];

describe('nodes and a change of LEAT_SECRET_KEY', () => {
  test(
    'two nodes under load: no request fails, the command survives kill -9, and the former key goes',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const receiver = await startCountingReceiver(t);
      receiver.startRound();
      const first = [startWith(cluster, one), startWith(cluster, one)] as const;
      const former = await Promise.all(first);
      const names = ['first', 'second', 'third'];
      for (const name of names) await createStream(former[0], receiver.url, name);
      await withStore(cluster.url, [one], (store) => addSealedStreams(store, 300));

      const refused = await rotate(cluster, two, one);
      assert.equal(refused.code, 1);
      assert.match(
        refused.output,
        new RegExp(`^Nothing was changed\\. These nodes lack key ${two.id}:`),
      );
      assert.equal(refused.output.split(`  has ${one.id}\n`).length - 1, 2, refused.output);

      // One node has its keys in the other order.
      const nodes = await replaced(cluster, former, [
        [two, one],
        [one, two],
      ]);
      const acknowledged = new Set<string>();
      const refusals: unknown[] = [];
      const ending = new AbortController();
      const quota = createQuota();
      const publishing = nodes.map((node) =>
        publishOn(noting(node, refusals), acknowledged, { quota, until: ending.signal }),
      );
      const changing = changeStreams(nodes, receiver.url, ending.signal);
      await killedCommands(cluster, () => quota.add(1000));
      quota.add(1000);
      const ended = await rotate(cluster, two, one);
      assert.equal(ended.code, 0, ended.output);
      assert.match(ended.output, new RegExp(`Key ${one.id} seals nothing any more\\.\nRemove key`));
      quota.add(100);
      await waitFor('all events to be published', () => acknowledged.size === 3100, {
        progress: () => acknowledged.size,
      });
      ending.abort();
      await Promise.all(publishing);
      assert.deepEqual(refusals, []);
      names.push(...(await changing));

      const last = await startWith(cluster, two);
      for (const node of nodes) assert.equal(await node.stop(), 0);
      for (const id of await publish(last, 3)) acknowledged.add(id);
      await receiver.waitForAll('every event', names.slice(0, 3), acknowledged);
      assert.equal(await last.stop(), 0);
      assert.equal(await openAll(cluster.url, [two]), 300 + names.length);
      await assert.rejects(openAll(cluster.url, [one]), /which key \w{12} seals/);
    },
  );

  test(
    'a database that can only be read in the middle: the command ends with one line and resumes',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const node = await startWith(cluster, two, one);
      await withStore(cluster.url, [one, two], (store) => addSealedStreams(store, 250));
      await beginRotation(cluster.url, [one, two]);
      await readOnly(cluster, true);
      const refused = await rotate(cluster, one, two);
      assert.equal(refused.code, 1);
      assert.equal(refused.output.trim().split('\n').length, 1, refused.output);
      await readOnly(cluster, false);
      const ended = await rotate(cluster, one, two);
      assert.equal(ended.code, 0, ended.output);
      assert.equal(await node.stop(), 0);
      assert.equal(await openAll(cluster.url, [one]), 250);
    },
  );

  test(
    'a node that was frozen while the key changed stops using the store when it wakes',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const frozen = await startWith(cluster, one);
      frozen.child.kill('SIGSTOP');
      // As if time had passed.
      await cluster.query('update nodes set lease_until = clock_timestamp()');
      const changed = await rotate(cluster, two, one);
      assert.equal(changed.code, 0, changed.output);
      frozen.child.kill('SIGCONT');
      await waitFor('a node that is not ready', async () => {
        const response = await fetch(`${frozen.url}/readyz`).catch(() => undefined);
        await response?.arrayBuffer();
        return response?.status === 503;
      });
      const response = await frozen.send('POST', '/api/v2/events', { type: 'a.b', data: {} });
      assert.equal(response.status, 503, await response.text());
      await waitFor('the log to say so', () =>
        /does not fit the secrets in the store/.test(frozen.output()),
      );
    },
  );
});

function startWith(cluster: Cluster, ...keys: TestKey[]): Promise<Running> {
  return cluster.start({ LEAT_SECRET_KEY: textOf(keys) });
}

function textOf(keys: readonly TestKey[]): string {
  return keys.map(({ text }) => text).join(',');
}

function environment(cluster: Cluster, keys: readonly TestKey[]): Record<string, string> {
  return { LEAT_STORE: cluster.url, LEAT_SECRET_KEY: textOf(keys) };
}

function rotate(cluster: Cluster, ...keys: TestKey[]) {
  return runLeat(['secrets', 'rotate'], environment(cluster, keys));
}

/** Returns the node; what its requests fail with is added to `refusals`. */
function noting(node: Running, refusals: unknown[]): Running {
  const send: Running['send'] = async (...request) => {
    try {
      const response = await node.send(...request);
      if (!response.ok) refusals.push(response.status);
      return response;
    } catch (error) {
      refusals.push(error);
      throw error;
    }
  };
  return { ...node, send };
}

/** Replaces the nodes one after the other, the new one first. */
async function replaced(
  cluster: Cluster,
  nodes: readonly Running[],
  keys: readonly (readonly TestKey[])[],
): Promise<Running[]> {
  const next: Running[] = [];
  for (const [index, node] of nodes.entries()) {
    next.push(await startWith(cluster, ...(keys[index] ?? [])));
    assert.equal(await node.stop(), 0);
  }
  return next;
}

/** Runs the command under load, and kills it each time in the middle of a later step. */
async function killedCommands(cluster: Cluster, load: () => void): Promise<void> {
  const holder = new pg.Client({ connectionString: cluster.url });
  await holder.connect();
  try {
    for (const passed of [50, 250]) {
      load();
      await holder.query('begin');
      await holder.query(
        `select 1 from streams order by tenant, id offset ${passed} limit 1 for update`,
      );
      const { child, output } = spawnLeat(['secrets', 'rotate'], environment(cluster, [two, one]));
      await waitFor('the command to wait for the row', async () => {
        assert.equal(child.exitCode, null, output());
        const waiting = await holder.query(
          'select 1 from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))',
        );
        return waiting.rowCount === 1;
      });
      await end(child, 'SIGKILL');
      await holder.query('rollback');
    }
  } finally {
    await holder.end();
  }
}

/** Creates streams and changes their secrets at all nodes, until aborted; returns their names. */
async function changeStreams(
  nodes: readonly Running[],
  endpoint: string,
  until: AbortSignal,
): Promise<string[]> {
  const names: string[] = [];
  while (!until.aborted && names.length < 60) {
    for (const node of nodes) {
      const name = `changing-${names.length}`;
      const id = await createStream(node, endpoint, name);
      names.push(name);
      const path = `/api/v2/event-streams/${id}`;
      for (const [method, suffix, body] of [
        ['POST', '/signing-secret/rotate', {}],
        ['PATCH', '', { status: 'disabled' }],
      ] as const) {
        const response = await node.send(method, `${path}${suffix}`, body);
        const text = await response.text();
        assert.ok(response.ok, `${method} ${suffix}: ${response.status} ${text}`);
      }
    }
  }
  return names;
}

async function readOnly(cluster: Cluster, isOn: boolean): Promise<void> {
  const [database] = await cluster.query<{ name: string }>('select current_database() as name');
  const value = isOn ? 'on' : 'off';
  await cluster.query(
    `begin read write; alter database "${database?.name}" set default_transaction_read_only = ${value}; commit`,
  );
}
