import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { startAlertReceiver } from '../helpers/alerts.ts';
import { startCluster } from '../helpers/cluster.ts';
import { freePort, type Running, startFreshLeat } from '../helpers/leat.ts';
import { createLedger } from '../helpers/publish-faults.ts';
import { createQuota } from '../helpers/quota.ts';
import { createSlowDisk, type DiskFaults, noSlowDisk } from '../helpers/slow-disk.ts';
import {
  type FaultyStore,
  startFaultyPostgres,
  startFaultySqlite,
} from '../helpers/store-faults.ts';
import { publish } from '../helpers/traffic.ts';
import { waitFor } from '../helpers/wait.ts';

const failureLine = 'the store takes no appends';

/** Waits until everything that an operator sees says that publishing fails. */
async function showsFailure(node: Running, metricsPort: number, message: string): Promise<void> {
  const shown = waitFor(`a node that is not ready: ${message}`, async () => {
    const response = await fetch(`${node.url}/readyz`);
    const body = (await response.json()) as { message?: string };
    return response.status === 503 && body.message === message;
  });
  await shown;
  await waitFor('the metric', () => metricIs(metricsPort, 1));
  await waitFor('the log', () => linesOf(node) > 0);
}

async function showsRecovery(node: Running, metricsPort: number): Promise<void> {
  await waitFor('a publish', async () => (await publish(node, 1)).length === 1);
  await waitFor('a node that is ready', async () => (await fetch(`${node.url}/readyz`)).ok);
  await waitFor('the metric', () => metricIs(metricsPort, 0));
}

async function metricIs(port: number, value: number): Promise<boolean> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return text.includes(`\nleat_store_failing ${value}\n`);
}

const linesOf = (node: Running): number => node.output().split(failureLine).length - 1;

const tags = ['long'];

describe('publishing that fails is seen by readiness, metric and log', () => {
  test('PostgreSQL: appends that wait for a lock', { tags }, async (t) => {
    const cluster = await startCluster(t);
    const metricsPort = await freePort();
    const node = await cluster.start({ LEAT_METRICS_PORT: String(metricsPort) });
    const client = new pg.Client({ connectionString: cluster.url });
    client.on('error', () => undefined);
    await client.connect();
    await client.query('begin; lock table events in exclusive mode');
    const refused = publish(node, 1);
    const message = 'The store takes no appends: something in it holds them up.';
    await showsFailure(node, metricsPort, message);
    assert.deepEqual(await refused, []);
    await showsFailure(node, metricsPort, message);
    await client.end();
    await showsRecovery(node, metricsPort);
    assert.equal(linesOf(node), 1);
  });

  const disks: Record<string, DiskFaults> = {
    'The store is not available.': { path: 'leat.db', syncError: 'EIO' },
    'The disk of the store is full.': { path: 'leat.db', writeError: 'ENOSPC' },
  };
  for (const [message, faults] of Object.entries(disks)) {
    test(`SQLite: ${message}`, { tags, skip: noSlowDisk() }, async (t) => {
      const disk = createSlowDisk();
      t.after(disk.remove);
      const metricsPort = await freePort();
      const chat = await startAlertReceiver();
      t.after(() => chat.close());
      const node = await startFreshLeat(t, {
        LEAT_METRICS_PORT: String(metricsPort),
        LEAT_ALERT_WEBHOOK_URL: chat.url,
        LEAT_LOG_LEVEL: 'info',
        ...disk.env,
      });
      disk.set(faults);
      const refused = publish(node, 1);
      await showsFailure(node, metricsPort, message);
      assert.deepEqual(await refused, []);
      if (faults.writeError === 'ENOSPC') {
        const response = await node.send('POST', '/api/v2/events', { type: 'a.b', data: {} });
        assert.equal(((await response.json()) as { message: string }).message, message);
        await waitFor('the alert', () => chat.system().length > 0);
        assert.equal(chat.system()[0]?.alert, 'disk_full');
      }
      disk.set({});
      await showsRecovery(node, metricsPort);
      assert.equal(linesOf(node), 1);
    });
  }
});

describe('a 503 without `unknown` means that nothing is stored', () => {
  const stores: Record<string, (t: TestContext) => Promise<FaultyStore>> = {
    PostgreSQL: startFaultyPostgres,
    SQLite: startFaultySqlite,
  };
  for (const [name, start] of Object.entries(stores)) {
    const skip = name === 'SQLite' && noSlowDisk();
    test(
      `${name}: every response agrees with the log, whatever happens to the store`,
      {
        tags,
        skip,
      },
      async (t) => {
        const store = await start(t);
        const ledger = createLedger();
        const ending = new AbortController();
        t.after(() => ending.abort());
        const quota = createQuota();
        const publishing = ledger.publish(store.node, quota, ending.signal);
        for (const begin of Object.values(store.faults)) {
          quota.add(100);
          await begin(300);
        }
        await waitFor('the rest of the requests', () => quota.left === 0, {
          progress: () => quota.left,
        });
        ending.abort();
        await publishing;
        const { missing, storedThoughRefused, others } = ledger.result(await store.stored());
        assert.deepEqual(
          { missing, storedThoughRefused, others },
          {
            missing: 0,
            storedThoughRefused: 0,
            others: {},
          },
        );
      },
    );
  }
});
