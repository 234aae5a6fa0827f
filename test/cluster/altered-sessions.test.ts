import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pooledSessions, startCluster } from '../helpers/cluster.ts';
import { alterSessions, strangersSettings } from '../helpers/stranger.ts';
import { createStream, eventType, startCountingReceiver } from '../helpers/traffic.ts';

/** Requests of each kind after each setting. */
const roundsEach = 6;

test(
  'a node answers every request and loses no event while another client alters all sessions of the pooler',
  { tags: ['long'] },
  async (t) => {
    const cluster = await startCluster(t, { pooled: true });
    const receiver = await startCountingReceiver(t);
    const node = await cluster.start();
    await createStream(node, receiver.url, 'one');
    const acknowledged: string[] = [];
    const failures: string[] = [];
    const send = async (method: string, path: string, body?: unknown): Promise<unknown> => {
      const response = await node.send(method, path, body);
      const text = await response.text();
      if (response.status >= 500) failures.push(`${method} ${path}: ${response.status} ${text}`);
      return JSON.parse(text === '' ? 'null' : text);
    };
    const publish = async (): Promise<void> => {
      const event = { type: eventType, data: { object: { text: 'é 字 🙂' } } };
      const stored = await send('POST', '/api/v2/events', event);
      const { id } = stored as { readonly id?: string };
      if (id !== undefined) acknowledged.push(id);
    };
    const reads = [
      '/readyz',
      '/api/v2/event-streams',
      '/api/v2/clients',
      '/api/v2/users',
      '/api/v2/event-log',
      '/api/v2/audit-log',
      '/api/v2/stats',
    ];
    for (const setting of strangersSettings) {
      const altering = alterSessions(cluster.proxiedUrl, pooledSessions, setting);
      const load = async (): Promise<void> => {
        for (let round = 0; round < roundsEach; round += 1) {
          await Promise.all([publish(), publish(), ...reads.map((path) => send('GET', path))]);
        }
      };
      await Promise.all([altering, load()]);
      await load();
      assert.deepEqual(failures, [], setting);
    }
    assert.equal(acknowledged.length, strangersSettings.length * roundsEach * 4);
    await receiver.waitForAll('every event', ['one'], acknowledged);
  },
);
