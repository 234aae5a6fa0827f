import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { createStream } from '../helpers/api-client.ts';
import {
  bootstrapClient,
  createTempStore,
  fetchToken,
  runLeat,
  type Running,
  secretKey,
  startLeat,
  type TempStore,
  storeEnvironment,
} from '../helpers/leat.ts';

/** What commands and crashes leave in the audit log of the real program. */

interface Entry {
  readonly type: string;
  readonly description: string;
  readonly client_id?: string;
  readonly details: { readonly targets: readonly string[]; readonly command?: string };
}

async function open(t: TestContext): Promise<{ tempStore: TempStore; leat: Running }> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const leat = await startLeat(tempStore);
  t.after(() => leat.kill());
  return { tempStore, leat };
}

test(
  'leat keys and tenants: their changes are in the audit log, with the command and its targets',
  { tags: ['long'] },
  async (t) => {
    const { tempStore, leat } = await open(t);
    const run = async (...words: string[]): Promise<string> => {
      const { code, output } = await runLeat(words, storeEnvironment(tempStore));
      assert.equal(code, 0, output);
      return output;
    };
    const [former = ''] = (await run('keys', 'list')).split(' ');
    const rotated = await run('keys', 'rotate', '--now');
    const added = /Key (\S+) is/.exec(rotated)?.[1];
    await run('keys', 'revoke', former);
    const forWebhooks = /Key (\S+) is/.exec(await run('keys', 'rotate', '--webhooks'))?.[1];
    const renewed = await run('tenants', 'bootstrap', 'main');
    const client = /id {6}(\S+)/.exec(renewed)?.[1];
    await run('tenants', 'create', 'two', 'two.test');
    await run('tenants', 'delete', 'two', '--yes', 'two');
    const response = await leat.send(
      'GET',
      '/api/v2/logs?types=leat_key_rotated,leat_operator',
      undefined,
      {
        authorization: `Bearer ${await tokenOf(leat, renewed)}`,
        host: `localhost:${leat.port}`,
      },
    );
    const entries = (await response.json()) as Entry[];
    assert.deepEqual(
      entries.map(({ type, details }) => [type, details.command, details.targets]).toReversed(),
      [
        ['leat_operator', 'start', [bootstrapClient.id]],
        ['leat_key_rotated', 'keys rotate', [added]],
        ['leat_operator', 'keys revoke', [former]],
        ['leat_key_rotated', 'keys rotate --webhooks', [forWebhooks]],
        ['leat_operator', 'tenants bootstrap', [client]],
        ['leat_operator', 'tenants bootstrap', [bootstrapClient.id]],
        ['leat_operator', 'tenants delete', ['two']],
      ],
    );
  },
);

test(
  'leat secrets rotate: the first tenant has an entry with the id of the new key',
  { tags: ['long'] },
  async (t) => {
    const { tempStore, leat } = await open(t);
    assert.equal(await leat.stop(), 0);
    const keys = [randomBytes(32), secretKey].map((key) => key.toString('base64')).join(',');
    const settings = { ...storeEnvironment(tempStore), LEAT_SECRET_KEY: keys };
    const { code, output } = await runLeat(['secrets', 'rotate'], settings);
    assert.equal(code, 0, output);
    const key = /with key (\w+)\./.exec(output)?.[1];
    assert.ok(key, output);
    const again = await startLeat(tempStore, { LEAT_SECRET_KEY: keys });
    t.after(() => again.kill());
    const response = await again.send('GET', `/api/v2/logs?types=leat_operator&target=${key}`);
    const [entry, ...more] = (await response.json()) as Entry[];
    assert.deepEqual(more, []);
    assert.deepEqual(entry?.details, { targets: [key], command: 'secrets rotate' });
  },
);

/** Returns a token of the client whose credentials a command has printed. */
function tokenOf(leat: Running, printed: string): Promise<string> {
  const [, id = '', secret = ''] = /id {6}(\S+)\n {2}secret {2}(\S+)/.exec(printed) ?? [];
  return fetchToken(leat.url, { id, secret }, `https://localhost:${leat.port}/api/v2/`);
}

test(
  'kill -9: after it each change has its entry, and each entry its change',
  { tags: ['long'] },
  async (t) => {
    const { tempStore, leat } = await open(t);
    const accepted: string[] = [];
    let isKilled = false;
    const creating = Array.from({ length: 8 }, async () => {
      while (!isKilled) {
        const created = await createStream(leat, 'https://hooks.example.net/', {
          types: ['a.b'],
        }).catch(() => undefined);
        if (created === undefined) return;
        accepted.push(created.id);
        if (accepted.length === 40) {
          isKilled = true;
          await leat.kill();
        }
      }
    });
    await Promise.all(creating);
    const db = new DatabaseSync(tempStore.file);
    const ids = (statement: string): string[] =>
      db
        .prepare(statement)
        .all()
        .map(({ id }) => String(id));
    const streams = ids('select id from streams order by id');
    const recorded = ids(
      `select target as id from audit_targets where target like 'est_%' order by 1`,
    );
    const rows = JSON.stringify(db.prepare('select * from audit_log').all());
    db.close();
    assert.deepEqual(recorded, streams);
    assert.deepEqual(
      accepted.filter((id) => !streams.includes(id)),
      [],
    );
    for (const secret of [bootstrapClient.secret, secretKey.toString('base64'), leat.token]) {
      assert.ok(!rows.includes(secret));
    }
  },
);
