import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { durationText } from '../../src/cli/delivery-stats.ts';
import { createStream, freshType } from '../helpers/api-client.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/wait.ts';
import { openLoggedInShell, openServer } from './shell.ts';

describe('durationText', () => {
  test('has the largest unit that fits, with at most three digits', () => {
    const texts = [
      1,
      18.3,
      999,
      1000,
      1234,
      12_345,
      90_000,
      3_600_000,
      86_400_000,
      33 * 86_400_000,
    ];
    assert.deepEqual(texts.map(durationText), [
      '1 ms',
      '18 ms',
      '999 ms',
      '1.0 s',
      '1.2 s',
      '12 s',
      '1.5 min',
      '1.0 h',
      '1.0 d',
      '33 d',
    ]);
  });
});

describe('leat stats by time', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat stats: rejects another length of a bucket, and a window that is too long', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const bucket = await shell.leat(['stats', '--bucket', 'week']);
    assert.equal(bucket.code, 2);
    assert.match(bucket.stderr, /minute, hour, day/);
    const long = await shell.leat(['stats', '--bucket', 'minute', '--since', '3d']);
    assert.equal(long.code, 1);
    assert.match(long.stderr, /use bucket=hour/);
  });

  test(
    'leat stats: shows the numbers and latency of all streams, and of one, in 80 columns',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const type = freshType();
      const { id } = await createStream(leat, endpoint.url, { types: [type] });
      const published = await shell.leat(['events', 'publish', '--type', type]);
      assert.equal(published.code, 0, published.stderr);
      await endpoint.arrival(1);
      // A node writes its minutes every ten seconds.
      await waitFor('the delivery to be counted', async () => {
        const { stdout } = await shell.leat(['stats', id, '--bucket', 'day']);
        return stdout.includes('\n1 delivered, ');
      });
      const tenant = await shell.leat(['stats']);
      assert.equal(tenant.code, 0, tenant.stderr);
      const [header, ...lines] = tenant.stdout.split('\n');
      assert.match(header ?? '', /^TIME \(UTC\) +PUBLISHED +DELIVERED +FAILED +RETRIED +P50 +P95$/);
      assert.ok(lines.length >= 26, tenant.stdout);
      const hour = lines.find((line) =>
        /^\d{4}-\d\d-\d\d \d\d:00 +\d+ +1 +0 +0 +\d+.* m?s$/.test(line),
      );
      assert.ok(hour !== undefined, tenant.stdout);
      assert.ok(tenant.stdout.split('\n').every((line) => line.length <= 80));
      assert.match(
        tenant.stdout,
        /\n\d+ published, 1 delivered, 0 failed, 0 retried; p50 and p95 are/,
      );
      const days = await shell.leat(['stats', id, '--bucket', 'day', '--since', '2d', '--json']);
      const { data } = JSON.parse(days.stdout) as { data: { delivered: number }[] };
      assert.equal(data.at(-1)?.delivered, 1);
      assert.ok(!days.stdout.includes('"published"'));
    },
  );

  test('leat events types: lists predefined types, and those of the log', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const type = freshType();
    const published = await shell.leat(['events', 'publish', '--type', type]);
    assert.equal(published.code, 0, published.stderr);
    const all = await shell.leat(['events', 'types']);
    assert.equal(all.code, 0, all.stderr);
    assert.match(all.stdout, /^user\.created +yes +never$/m);
    assert.match(all.stdout, new RegExp(`^${type} +no +\\d{4}-\\d\\d-\\d\\d .*Z$`, 'm'));
    const seen = await shell.leat(['events', 'types', '--seen', '--json']);
    const types = JSON.parse(seen.stdout) as { type: string; catalogue: boolean }[];
    assert.ok(types.some((row) => row.type === type && !row.catalogue));
    assert.ok(!types.some((row) => row.type === 'user.created'));
  });
});
