import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { startCluster } from '../helpers/cluster.ts';
import { type Running, waitFor } from '../helpers/leat.ts';
import { query } from '../helpers/postgres.ts';
import { publish } from '../helpers/traffic.ts';

describe('GET /readyz', () => {
  const ready = (node: Running): Promise<unknown> =>
    waitFor('a node that is ready', async () => (await fetch(`${node.url}/readyz`)).ok);
  const notReady = (node: Running, reason: string): Promise<unknown> =>
    waitFor(`a node that is not ready: ${reason}`, async () => {
      const response = await fetch(`${node.url}/readyz`);
      const { message } = (await response.json()) as { message?: string };
      return response.status === 503 && message === reason;
    });

  test('GET /readyz: 503 while the database is read-only', { tags: ['long'] }, async (t) => {
    const { server, start } = await startCluster(t);
    const node = await start();
    const setReadOnly = async (value: 'on' | 'off'): Promise<void> => {
      await query(server.url(), `alter system set default_transaction_read_only = ${value}`);
      await query(server.url(), 'select pg_reload_conf()');
    };
    await setReadOnly('on');
    await notReady(node, 'The store can only be read.');
    assert.deepEqual(await publish(node, 1), []);
    assert.equal((await fetch(`${node.url}/healthz`)).status, 200);

    await setReadOnly('off');
    await ready(node);
    assert.equal((await publish(node, 1)).length, 1);
  });

  test('GET /readyz: 503 while the disk of the database is full', { tags: ['long'] }, async (t) => {
    const cluster = await startCluster(t);
    const node = await cluster.start();
    await cluster.query(`
      create function full_disk() returns trigger language plpgsql as $$
        begin raise exception 'could not extend file' using errcode = '53100'; end $$;
      create trigger full_disk before update on tenants
        for each statement execute function full_disk()`);
    assert.deepEqual(await publish(node, 1), []);
    await notReady(node, 'The disk of the store is full.');
    await cluster.query('drop function full_disk cascade');
    assert.equal((await publish(node, 1)).length, 1);
    await ready(node);
  });

  test('GET /readyz: 503 while the node cannot renew its lease', { tags: ['long'] }, async (t) => {
    const { url, start } = await startCluster(t);
    const node = await start();
    const locking = new pg.Client({ connectionString: url });
    // When the test fails, the server ends before this connection.
    locking.on('error', () => undefined);
    await locking.connect();
    await locking.query('begin; lock table nodes in access exclusive mode');
    await notReady(node, 'The node has no lease.');
    assert.equal((await publish(node, 1)).length, 1);
    await locking.end();
    await ready(node);
  });
});
