import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startCluster } from '../helpers/cluster.ts';
import { bootstrapClient, createTempStore, type Running, waitFor } from '../helpers/leat.ts';
import { publish } from '../helpers/traffic.ts';

const execute = promisify(execFile);
const bin = join(process.env['LEAT_TEST_PG'] ?? '', 'bin');
const hasTools = existsSync(join(bin, 'pg_restore'));

test(
  'PostgreSQL: while pg_restore replaces the tables under a node, each request is served or 503',
  { tags: ['long'], skip: hasTools ? false : 'LEAT_TEST_PG names no folder with pg_restore' },
  async (t) => {
    const cluster = await startCluster(t);
    const node = await cluster.start();
    const { folder, remove } = await createTempStore();
    t.after(remove);
    const backup = join(folder, 'leat.dump');
    await execute(join(bin, 'pg_dump'), ['--format=custom', `--file=${backup}`, cluster.url]);
    const ending = new AbortController();
    const statuses = new Map<string, number>();
    const asking = Promise.all(requests.map((one) => ask(node, one, statuses, ending.signal)));
    for (let round = 0; round < 3; round += 1) {
      // Not in one transaction: what is restored appears table by table.
      const clean = ['--clean', '--if-exists', '--no-owner', `--dbname=${cluster.url}`];
      await execute(join(bin, 'pg_restore'), [...clean, backup]);
      await waitFor('the node to publish again', async () => {
        return (await publish(node, 1)).length === 1;
      });
    }
    ending.abort();
    await asking;
    const found = [...statuses];
    assert.deepEqual(
      found.filter(([key]) => !/ (2\d\d|503)$/.test(key)),
      [],
    );
    assert.notDeepEqual(
      found.filter(([key]) => key.endsWith(' 503')),
      [],
    );
  },
);

type Sent = Parameters<Running['send']>;
const tokenRequest = {
  grant_type: 'client_credentials',
  audience: '/api/v2/',
  client_id: bootstrapClient.id,
  client_secret: bootstrapClient.secret,
};
const requests: readonly Sent[] = [
  ['GET', '/api/v2/event-streams'],
  ['GET', `/api/v2/clients/${bootstrapClient.id}`],
  ['POST', '/api/v2/events', { type: 'order.paid', data: {} }],
  ['POST', '/oauth/token', tokenRequest, { authorization: '' }],
];

async function ask(
  node: Running,
  sent: Sent,
  statuses: Map<string, number>,
  until: AbortSignal,
): Promise<void> {
  while (!until.aborted) {
    const response = await node.send(...sent);
    await response.text();
    const key = `${sent[0]} ${sent[1]} ${response.status}`;
    statuses.set(key, (statuses.get(key) ?? 0) + 1);
  }
}
