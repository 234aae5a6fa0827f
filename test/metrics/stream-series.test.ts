import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { AttemptReport } from '../../src/delivery/report.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';
import { attemptReport } from '../helpers/attempt-report.ts';
import { type Exposition, readExposition } from '../helpers/prometheus.ts';
import { waitFor } from '../helpers/wait.ts';

const metric = 'leat_stream_attempts_total';

/** Metrics of a node whose store has these tenants, and streams by tenant, with their names. */
function openFixture(streamsMax: number) {
  const store = {
    tenants: new Map([
      [1, 'main'],
      [2, 'second'],
    ]),
    streams: new Map<number, Map<string, string>>([
      [1, new Map()],
      [2, new Map()],
    ]),
    isDown: false,
    reads: 0,
  };
  const metrics = createMetrics({
    failure: () => undefined,
    serviceName: 'leat',
    version: '1.2.3',
    time: { now: () => 0, skewMs: () => 0, skews: 0 },
    clock: systemClock,
    streamsMax,
    names: {
      tenants: {
        list: async () => {
          if (store.isDown) throw new StoreUnavailable('gone');
          return [...store.tenants].map(([id, name]) => ({ id, name, domain: `${name}.test` }));
        },
      },
      streams: {
        names: async (tenant, ids) => {
          store.reads += 1;
          const all = store.streams.get(tenant) ?? new Map<string, string>();
          return new Map([...all].filter(([id]) => ids.includes(id)));
        },
      },
    },
  });
  const scrapeUntil = (what: string, holds: (text: Exposition) => boolean): Promise<Exposition> =>
    waitFor(what, async () => {
      const text = readExposition(await metrics.text());
      return holds(text) && text;
    });
  return { store, metrics, scrapeUntil };
}

const attemptOf = (tenant: number, stream: string): AttemptReport =>
  attemptReport({ tenant, stream, result: 'retry', status: undefined, error: 'timeout' });

const labelsOf = (tenant: string, stream: string) => ({
  tenant,
  stream,
  outcome: 'retry',
  code: 'timeout',
});

describe('the series of streams', () => {
  test('hostile names of streams are values of one label, and each tenant has its own streams', async () => {
    const { store, metrics, scrapeUntil } = openFixture(10);
    const names = ['a"} 1\nb 2', '\\', '\\n', 'x\ry\u0000z', '{}', '', 'other', '# HELP a b'];
    for (const [index, name] of names.entries()) {
      for (const tenant of [1, 2]) {
        store.streams.get(tenant)?.set(`est_${tenant}_${index}`, name);
        if (index < 5) metrics.report(attemptOf(tenant, `est_${tenant}_${index}`));
      }
    }
    const text = await scrapeUntil(
      'all names',
      (now) => now.samples('leat_stream_info').length === 10,
    );
    for (const { labels } of text.samples('leat_stream_info')) {
      const [, tenant, index] = labels['stream']?.split('_') ?? [];
      assert.deepEqual(
        [labels['tenant'], labels['name']],
        [store.tenants.get(Number(tenant)), names[Number(index)]],
      );
    }
    assert.equal(text.samples(metric).length, 10);
  });

  test('while the store is down nothing is lost, and a scrape does not wait', async () => {
    const { store, metrics, scrapeUntil } = openFixture(10);
    store.isDown = true;
    store.streams.get(1)?.set('est_a', 'crm');
    metrics.report(attemptOf(1, 'est_a'));
    const down = readExposition(await metrics.text());
    assert.deepEqual(down.samples(metric), []);
    metrics.report(attemptOf(1, 'est_a'));
    store.isDown = false;
    const text = await scrapeUntil('the series', (now) => now.samples(metric).length > 0);
    assert.equal(text.value(metric, labelsOf('main', 'est_a')), 2);
  });

  test('a removed tenant takes the series of its streams along, and the bound makes room', async () => {
    const { store, metrics, scrapeUntil } = openFixture(1);
    store.streams.get(1)?.set('est_a', 'crm');
    store.streams.get(2)?.set('est_b', 'erp');
    metrics.report(attemptOf(2, 'est_b'));
    metrics.report(attemptOf(1, 'est_a'));
    const before = await scrapeUntil('the first', (now) =>
      now.has('leat_stream_info', {
        tenant: 'second',
        stream: 'est_b',
        name: 'erp',
      }),
    );
    assert.equal(before.value(metric, labelsOf('', 'other')), 1);
    store.tenants.delete(2);
    metrics.hint({ kind: 'tenants' });
    const after = await scrapeUntil('the other one', (now) =>
      now.has(metric, labelsOf('main', 'est_a')),
    );
    assert.equal(after.value(metric, labelsOf('main', 'est_a')), 0, 'begins at 0');
    assert.equal(after.has(metric, labelsOf('second', 'est_b')), false);
  });

  test('hints about a stream cost one read for each scrape, however many there are', async () => {
    const { store, metrics, scrapeUntil } = openFixture(10);
    store.streams.get(1)?.set('est_a', 'crm');
    metrics.report(attemptOf(1, 'est_a'));
    await scrapeUntil('the series', (now) => now.samples(metric).length > 0);
    const { reads } = store;
    for (let hint = 0; hint < 1000; hint++) {
      metrics.hint({ kind: 'stream', tenant: 1, stream: 'est_a' });
      metrics.hint({ kind: 'stream', tenant: 1, stream: 'est_unknown' });
    }
    store.streams.get(1)?.set('est_a', 'renamed');
    await scrapeUntil('the name', (now) =>
      now.has('leat_stream_info', { tenant: 'main', stream: 'est_a', name: 'renamed' }),
    );
    assert.equal(store.reads, reads + 1);
  });
});
