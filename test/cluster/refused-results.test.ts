import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';
import { waitFor } from '../helpers/leat.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { createStream, publish } from '../helpers/traffic.ts';

interface Health {
  readonly state: string;
  readonly results_refused: { readonly since: string; readonly code: string } | null;
}

test(
  'results that PostgreSQL refuses for a while: the stream is failing, a pause is answered, and all events arrive',
  { tags: ['long'] },
  async (t) => {
    const cluster = await startCluster(t);
    const node = await cluster.start();
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const id = await createStream(node, endpoint.url, 'crm');
    const health = async (): Promise<Health> => {
      const response = await node.send('GET', `/api/v2/event-streams/${id}/health`);
      return (await response.json()) as Health;
    };
    const changed = (what: string) => node.send('POST', `/api/v2/event-streams/${id}/${what}`);
    await cluster.query(`
      create function refuse() returns trigger language plpgsql as $$
        begin raise exception 'no such value' using errcode = '22P02'; end $$;
      create trigger refuse before insert on attempts for each statement execute function refuse()`);
    const published = await publish(node, 3);
    await waitFor('a stream that is failing', async () => (await health()).state === 'failing');
    assert.equal((await health()).results_refused?.code, '22P02');
    assert.equal((await changed('pause')).status, 200);
    assert.equal((await changed('resume')).status, 200);
    await cluster.query('drop function refuse cascade');
    await waitFor('a stream that is ok', async () => (await health()).state === 'ok');
    const arrived = new Set(endpoint.arrivals.map(({ headers }) => headers['webhook-id']));
    assert.deepEqual(arrived, new Set(published));
  },
);
