import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import type { Hint } from '../../../src/store/port/hints.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { waitFor } from '../../helpers/leat.ts';
import { sharedPostgres, throughPort } from '../../helpers/postgres.ts';
import { startTcpProxy } from '../../helpers/tcp-proxy.ts';
import { newDatabase, openUrl } from '../engines.ts';

describe('PostgreSQL: notifications', () => {
  test('payloads that no node sends, or only a later version, are ignored, and the next one arrives', async (t) => {
    const { client, store, received } = await openListening(t);
    const payloads = [
      '',
      'x',
      '{"kind":"missed"}',
      'null',
      '[]',
      '["other"]',
      '["other",{"kind":"missed"}]',
      '["other",[null,1,"missed",[],{}]]',
      '["other",[{"kind":"of a later version","tenant":1}]]',
      '["other",[{"kind":"stream","tenant":1,"stream":"</script>"}]]',
      '["other",[{"kind":"stream","tenant":1,"stream":"est_1\\n"}]]',
      '["other",[{"kind":"stream","tenant":"1","stream":"est_1"},{"kind":"stream","tenant":1}]]',
      '["other",[{"kind":"head","tenant":1,"head":"9"},{"kind":"appended","tenant":1,"events":[{}]}]]',
      '["other",[{"kind":"client","tenant":1,"client":1},{"kind":"keys"},{"kind":"replaced"}]]',
      '["other",[{"kind":"__proto__"},{"kind":"toString"}]]',
    ];
    for (const payload of payloads) await client.query(`select pg_notify('leat', $1)`, [payload]);
    await client.query(`select pg_notify('leat', $1)`, [
      '["other",[{"kind":"x"},{"kind":"stream","tenant":1,"stream":"est_1","more":true}]]',
    ]);
    await waitFor('the last hint', async () => received.length > 0);
    assert.deepEqual(received, [{ kind: 'stream', tenant: 1, stream: 'est_1', more: true }]);
    await store.ping();
  });

  test('a notification that could not be sent: the others learn that they missed some', async (t) => {
    const { url, received } = await openListening(t);
    const proxy = await startTcpProxy(Number(new URL(url).port));
    t.after(() => proxy.close());
    const other = await openUrl(throughPort(url, proxy.port));
    t.after(() => other.close());
    // Listeners of the process itself come first: its notification is what fails.
    const unwatch = other.watch(() => proxy.refuse());
    await other.tenants.create({ name: 'other', domain: 'other.example.com' }, 0);
    await assert.rejects(other.ping());
    assert.deepEqual(received, []);
    unwatch();
    proxy.restore();
    await waitFor('the hint', async () => received.some(({ kind }) => kind === 'missed'));
  });
});

interface Listening {
  readonly url: string;
  /** A process that is no node. */
  readonly client: pg.Client;
  readonly store: Store;
  readonly received: Hint[];
}

async function openListening(t: TestContext): Promise<Listening> {
  const url = await newDatabase();
  const store = await openUrl(url);
  const client = new pg.Client(url);
  await client.connect();
  t.after(async () => {
    await client.end();
    await store.close();
    await (await sharedPostgres()).dropDatabase(url);
  });
  const received: Hint[] = [];
  store.watch((hint) => received.push(hint));
  return { url, client, store, received };
}
