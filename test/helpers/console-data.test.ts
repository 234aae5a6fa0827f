import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { expectBody } from './api-client.ts';
import { type ConsoleService, startConsoleService } from './console-service.ts';
import { createTempStore, type TempStore } from './leat.ts';

const largestGroup = 40;

describe('a service with much to see', () => {
  let tempStore: TempStore;
  let service: ConsoleService;
  before(async () => {
    tempStore = await createTempStore();
    service = await startConsoleService(tempStore, { past: true, largestGroup });
  });
  after(async () => {
    await service?.close();
    await tempStore.remove();
  });

  const read = <T>(path: string): Promise<T> =>
    expectBody<T>(200, service.leat.send('GET', `/api/v2${path}`));
  const stateAt = async (event: string, stream: string): Promise<string | undefined> => {
    const path = `/event-log/${event}`;
    const { deliveries } = await read<{ deliveries: { event_stream_id: string; state: string }[] }>(
      path,
    );
    return deliveries.find((delivery) => delivery.event_stream_id === stream)?.state;
  };

  test('streams in every state exist', { tags: ['long'] }, async () => {
    const { streams } = await read<{
      streams: { state: string; disabled: { reason: string } | null }[];
    }>('/stream-health?take=100');
    const states = new Set(streams.map(({ state }) => state));
    assert.deepEqual([...states].toSorted(), ['disabled', 'failing', 'lagging', 'ok', 'paused']);
    const reasons = streams.flatMap(({ disabled }) => disabled?.reason ?? []);
    assert.deepEqual(reasons.toSorted(), ['by_hand', 'consecutive_failures']);
  });

  test(
    'failures of every cause exist, in groups of different sizes',
    { tags: ['long'] },
    async () => {
      const { groups } = await read<{
        groups: { event_stream_id: string; error_code: string; count: number }[];
      }>('/delivery-groups?take=100');
      const codes = new Set(groups.map((group) => group.error_code));
      assert.deepEqual([...codes].toSorted(), [
        'authorization',
        'blocked_address',
        'dns',
        'http_400',
        'http_401',
        'http_409',
        'http_422',
        'http_503',
        'protocol',
        'refused',
        'reset',
        'timeout',
        'tls',
      ]);
      const largest = groups.find(({ error_code: code }) => code === 'http_400');
      assert.equal(largest?.event_stream_id, service.data.streams['crm-contacts']);
      assert.equal(largest.count, largestGroup);
    },
  );

  test('events have the states of their names', { tags: ['long'] }, async () => {
    const { events, streams } = service.data;
    assert.equal(await stateAt(events.order, streams['audit-archive']), 'delivered');
    assert.equal(await stateAt(events.order, streams['warehouse-orders']), 'failed');
    assert.equal(await stateAt(events.largestGroup, streams['crm-contacts']), 'failed');
    assert.equal(await stateAt(events.blocking, streams['inventory-sync']), 'failed');
    assert.equal(await stateAt(events.blocked, streams['inventory-sync']), 'blocked');
    assert.equal(await stateAt(events.retrying, streams['shipping-notifications']), 'retrying');
    assert.equal(await stateAt(events.skipped, streams['returns-desk']), 'skipped');
    assert.equal(await stateAt(events.dismissed, streams['crm-contacts']), 'dismissed');
  });

  test(
    'actions of the past are over, and those of the present run',
    { tags: ['long'] },
    async () => {
      const { redeliveries, replays, dismissal, streams } = service.data;
      const statusOf = async (path: string): Promise<string> =>
        (await read<{ status: string }>(path)).status;
      const replay = (key: 'billing' | 'analytics-replica', id: string): string =>
        `/event-streams/${streams[key]}/replay/${id}`;
      assert.deepEqual(
        [
          await statusOf(`/redeliveries/${redeliveries.finished}`),
          await statusOf(`/redeliveries/${redeliveries.running}`),
          await statusOf(replay('billing', replays.finished)),
          await statusOf(replay('analytics-replica', replays.running)),
          await statusOf(`/dismissals/${dismissal}`),
        ],
        ['done', 'running', 'done', 'running', 'done'],
      );
    },
  );

  test(
    'events of the past were delivered, and every hour of the last week has some',
    { tags: ['long'] },
    async () => {
      const dayAgo = new Date(Date.now() - 86_400_000).toISOString();
      const { events } = await read<{ events: { event: { id: string; type: string } }[] }>(
        `/event-log?date_to=${dayAgo}&event_types=order.paid&take=1`,
      );
      const id = events[0]?.event.id ?? '';
      assert.equal(await stateAt(id, service.data.streams['audit-archive']), 'delivered');
      const weekAgo = new Date(Date.now() - 7 * 86_400_000).toISOString();
      const { data } = await read<{ data: { published: number }[] }>(
        `/stats/deliveries?bucket=hour&date_from=${weekAgo}`,
      );
      assert.ok(data.length >= 168);
      assert.ok(data.every(({ published }) => published > 0));
    },
  );
});
