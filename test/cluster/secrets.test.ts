import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
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
  test('two nodes under load: no request fails, the command survives kill -9, and the former key goes', async (t) => {
    const cluster = await startCluster(t);
    const receiver = await startCountingReceiver(t);
    receiver.startRound();
    let nodes = [await startWith(cluster, one), await startWith(cluster, one)];
    const names = ['first', 'second', 'third'];
    for (const name of names) await createStream(nodes[0] ?? assert.fail(), receiver.url, name);
    await withStore(cluster.url, [one], (store) => addSealedStreams(store, 1500));

    const refused = await rotate(cluster, two, one);
    assert.equal(refused.code, 1);
    assert.match(
      refused.output,
      new RegExp(`^Nothing was changed\\. These nodes lack key ${two.id}:`),
    );
    assert.equal(refused.output.split(`  has ${one.id}\n`).length - 1, 2, refused.output);

    // One node has its keys in the other order.
    nodes = await replaced(cluster, nodes, [
      [two, one],
      [one, two],
    ]);
    const acknowledged = new Set<string>();
    const ending = new AbortController();
    const quota = createQuota(20_000);
    // Not patient: a publisher ends at its first refusal.
    const publishing = nodes.map((node) =>
      publishOn(node, acknowledged, { quota, until: ending.signal }),
    );
    const changing = changeStreams(nodes, receiver.url, ending.signal);
    await killedCommands(cluster);
    await assert.rejects(startWith(cluster, one), /which key \w{12} seals: set that key/);
    const ended = await rotate(cluster, two, one);
    assert.equal(ended.code, 0, ended.output);
    assert.match(ended.output, new RegExp(`Key ${one.id} seals nothing any more\\.\nRemove key`));
    assert.match((await rotate(cluster, two, one)).output, /nothing to do/);
    const before = acknowledged.size;
    await waitFor('more events', () => acknowledged.size > before, {
      progress: () => acknowledged.size,
    });
    quota.add(8);
    await waitFor('publishers at work', () => acknowledged.size > before);
    ending.abort();
    await Promise.all(publishing);
    names.push(...(await changing));

    nodes = await replaced(cluster, nodes, [[two], [two]]);
    for (const node of nodes) for (const id of await publish(node, 3)) acknowledged.add(id);
    await receiver.waitForAll('every event', names.slice(0, 3), acknowledged);
    for (const node of nodes) assert.equal(await node.stop(), 0);
    assert.equal(await openAll(cluster.url, [two]), 1500 + names.length);
    await assert.rejects(openAll(cluster.url, [one]), /which key \w{12} seals/);
  });

  test('a database that can only be read in the middle: the command ends with one line and resumes', async (t) => {
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
  });

  test('a node that was frozen while the key changed stops using the store when it wakes', async (t) => {
    const cluster = await startCluster(t);
    const frozen = await startWith(cluster, one);
    frozen.child.kill('SIGSTOP');
    await waitFor('the end of its lease', async () => {
      const [row] = await cluster.query<{ live: boolean }>(
        'select bool_or(lease_until > clock_timestamp()) as live from nodes',
      );
      return row?.live === false;
    });
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
  });
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

/** Runs the command several times and kills it, each time a little later after its change of the key. */
async function killedCommands(cluster: Cluster): Promise<void> {
  const [before] = await checks(cluster);
  for (let round = 0; round < 5; round += 1) {
    const { child, output } = spawnLeat(['secrets', 'rotate'], environment(cluster, [two, one]));
    await waitFor('the change of the key', async () => {
      const [now] = await checks(cluster);
      return now !== before || child.exitCode !== null;
    });
    await sleep(round * 20);
    const code = await end(child, 'SIGKILL');
    assert.ok(code === null || code === 0, output());
  }
}

async function checks(cluster: Cluster): Promise<string[]> {
  const rows = await cluster.query<{ sealed: string }>(
    `select encode(sealed, 'hex') as sealed from key_check`,
  );
  return rows.map(({ sealed }) => sealed);
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
