import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { freePort, createTempStore, startLeat } from '../helpers/leat.ts';
import { createStream, freshType, type Leat, publish } from '../helpers/api-client.ts';
import { createTenant, twoTenantsSettings } from '../helpers/tenants.ts';

const hangingStreams = 20;
const eventsEach = 30;

test(
  'receivers that hang do not delay other streams, of their tenant or another',
  { tags: ['long'] },
  async (t) => {
    const tempStore = await createTempStore();
    t.after(() => tempStore.remove());
    const main = await startLeat(tempStore, {
      ...twoTenantsSettings(await freePort()),
      LEAT_CONCURRENCY: '64',
      // None of them ends before the test does.
      LEAT_ATTEMPT_TIMEOUT_MS: '600000',
    });
    t.after(() => main.kill());
    const two = await createTenant(main, tempStore.file);
    const hanging = await startEndpoint(() => undefined);
    t.after(() => hanging.close());
    const receiver = await startEndpoint();
    t.after(() => receiver.close());

    const hangingType = freshType();
    for (let n = 0; n < hangingStreams; n += 1) {
      await createStream(main, `http://127.0.0.1:${hanging.port}/`, { types: [hangingType] });
    }
    const quick = await Promise.all(
      [main, two].map(async (leat) => {
        const type = freshType();
        await createStream(leat, `http://127.0.0.1:${receiver.port}/`, { types: [type] });
        return { leat, type };
      }),
    );
    const ids: string[] = [];
    for (let n = 0; n < eventsEach; n += 1) {
      await publish(main, hangingType);
      ids.push(...(await deliver(quick, receiver, ids.length)));
    }
    for (const id of ids) assert.equal(receiver.of(id).length, 1, `${id} was sent more than once`);
    assert.ok(
      hanging.arrivals.length >= hangingStreams,
      `${hanging.arrivals.length} requests hang`,
    );
  },
);

/** Publishes one event for each stream and waits until all have arrived. */
async function deliver(
  quick: readonly { readonly leat: Leat; readonly type: string }[],
  receiver: Endpoint,
  before: number,
): Promise<string[]> {
  const ids: string[] = [];
  for (const { leat, type } of quick) ids.push(await publish(leat, type));
  await receiver.arrival(before + ids.length);
  return ids;
}
