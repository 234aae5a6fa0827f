import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  createStream,
  eventsOf,
  expectBody,
  freshType,
  publishAll,
} from '../helpers/api-client.ts';
import { startCluster } from '../helpers/cluster.ts';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { createTempStore, type Running, startLeat } from '../helpers/leat.ts';
import { rounds } from '../helpers/rounds.ts';
import { waitFor } from '../helpers/wait.ts';

const streams = 4;
const events = 600;
const failures = streams * events;
const settings = { LEAT_DISABLE_CONSECUTIVE: '1000', LEAT_DISABLE_TOTAL: '2000' };
/** The deliveries of a node that crashed wait for its lease, and another node continues within a minute. */
const stallMs = 240_000;

interface Nodes {
  /** A node that runs. */
  leat(): Running;
  /** Kills that node; another one goes on. */
  crash(): Promise<void>;
  /** As `crash`, where that does not take minutes, or with all rounds. */
  crashAgain(): Promise<void>;
}

async function onSqlite(t: TestContext): Promise<Nodes> {
  const tempStore = await createTempStore();
  let leat = await startLeat(tempStore, settings);
  t.after(async () => {
    await leat.kill();
    await tempStore.remove();
  });
  const crash = async (): Promise<void> => {
    await leat.kill();
    leat = await startLeat(tempStore, settings);
  };
  return { leat: () => leat, crash, crashAgain: crash };
}

async function onPostgres(t: TestContext): Promise<Nodes> {
  const cluster = await startCluster(t);
  const nodes = await Promise.all([cluster.start(settings), cluster.start(settings)]);
  let at = 0;
  const leat = (): Running => {
    const node = nodes[at];
    assert.ok(node);
    return node;
  };
  const crash = async (): Promise<void> => {
    await leat().kill();
    at += 1;
    nodes.push(await cluster.start(settings));
  };
  const isAll = rounds({ few: 0, all: 1 }) === 1;
  return { leat, crash, crashAgain: isAll ? crash : async () => undefined };
}

type Counts = Readonly<Record<'delivered' | 'failed' | 'dismissed' | 'reopened', number>>;

/** The progress of a redelivery or a dismissal, each with its own counts. */
interface Progress extends Partial<Counts> {
  readonly id: string;
  readonly status: string;
  readonly total: number;
  readonly skipped: number;
}

const read = (nodes: Nodes, path: string): Promise<Progress> =>
  expectBody(200, nodes.leat().send('GET', `/api/v2/${path}`));

const start = (nodes: Nodes, path: string): Promise<Progress> =>
  expectBody(202, nodes.leat().send('POST', `/api/v2/${path}`, { all: true }));

/** Waits until a request is over. */
async function over(nodes: Nodes, path: string, status: string): Promise<Progress> {
  let last: Progress | undefined;
  const isOver = ({
    total,
    delivered = 0,
    failed = 0,
    skipped,
    dismissed = 0,
  }: Progress): boolean => delivered + failed + skipped + dismissed === total;
  return waitFor(
    `${path} to be ${status}`,
    async () => {
      last = await read(nodes, path);
      return last.status === status && isOver(last) && last;
    },
    { progress: () => last, stallMs },
  );
}

/** Returns the open failures by the counters, and by a count of the list. */
async function openFailures(nodes: Nodes): Promise<readonly [counted: number, listed: number]> {
  interface Groups {
    readonly groups: readonly { readonly count: number }[];
  }
  const { groups } = await expectBody<Groups>(
    200,
    nodes.leat().send('GET', '/api/v2/delivery-groups?take=50'),
  );
  let listed = 0;
  let from = '';
  do {
    const path = `/api/v2/deliveries?take=50${from}`;
    const page = await expectBody<{ deliveries: unknown[]; next?: string }>(
      200,
      nodes.leat().send('GET', path),
    );
    listed += page.deliveries.length;
    from = page.next === undefined ? '' : `&from=${encodeURIComponent(page.next)}`;
  } while (from !== '');
  return [groups.reduce((sum, { count }) => sum + count, 0), listed];
}

/** Creates streams whose events have all failed. */
async function failing(nodes: Nodes, endpoint: Endpoint): Promise<void> {
  const type = freshType();
  endpoint.respondWith(404);
  for (let number = 0; number < streams; number += 1) {
    await createStream(nodes.leat(), `${endpoint.url}/${number}`, { types: [type] });
  }
  await publishAll(nodes.leat(), eventsOf(type, events));
  let open = 0;
  await waitFor(
    'the failures',
    async () => {
      const [counted] = await openFailures(nodes);
      open = counted;
      return counted === failures;
    },
    { progress: () => open },
  );
}

/** Returns how many deliveries arrived after the first `before` requests. */
const arrivedAfter = ({ arrivals }: Endpoint, before: number): number =>
  new Set(arrivals.slice(before).map(({ path, event }) => `${path} ${event.id}`)).size;

describe('kill -9 during requests about many failures', { concurrency: 2 }, () => {
  for (const [engine, open] of [
    ['SQLite', onSqlite],
    ['PostgreSQL with two nodes', onPostgres],
  ] as const) {
    test(
      `${engine}: redeliveries finish and add up, a cancelled one sends nothing more, and dismissals are done and undone`,
      { tags: ['long'] },
      async (t) => {
        const endpoint = await startEndpoint();
        t.after(() => endpoint.close());
        const nodes = await open(t);
        await failing(nodes, endpoint);

        // Every second event is delivered.
        endpoint.respondWith((response, { event }) => {
          const { object } = event.data as { object: { number: number } };
          response.writeHead(object.number % 2 === 0 ? 204 : 404).end();
        });
        const before = endpoint.arrivals.length;
        const accepted = await start(nodes, 'redeliveries');
        assert.equal(accepted.total, failures);
        await nodes.crashAgain();
        const path = `redeliveries/${accepted.id}`;
        let sent = 0;
        await waitFor(
          'some attempts',
          async () => {
            const { delivered = 0, failed = 0 } = await read(nodes, path);
            sent = delivered + failed;
            return sent > failures / 10;
          },
          { progress: () => sent, stallMs },
        );
        await nodes.crash();
        const { delivered, failed, skipped, total } = await over(nodes, path, 'done');
        assert.deepEqual(
          [delivered, failed, skipped, total],
          [failures / 2, failures / 2, 0, failures],
        );
        assert.equal(arrivedAfter(endpoint, before), failures);
        assert.deepEqual(await openFailures(nodes), [failures / 2, failures / 2]);

        const beforeCancelled = endpoint.arrivals.length;
        const other = await start(nodes, 'redeliveries');
        assert.equal(other.total, failures / 2);
        const cancelled = `redeliveries/${other.id}`;
        const response = await nodes.leat().send('DELETE', `/api/v2/${cancelled}`);
        assert.equal(response.status, 204);
        await nodes.crashAgain();
        const left = await over(nodes, cancelled, 'cancelled');
        assert.ok(arrivedAfter(endpoint, beforeCancelled) <= left.total - left.skipped);
        assert.deepEqual(await openFailures(nodes), [failures / 2, failures / 2]);

        const beforeDismissed = endpoint.arrivals.length;
        const dismissal = await start(nodes, 'dismissals');
        assert.equal(dismissal.total, failures / 2);
        await nodes.crashAgain();
        const done = await over(nodes, `dismissals/${dismissal.id}`, 'done');
        assert.deepEqual([done.dismissed, done.skipped], [failures / 2, 0]);
        assert.deepEqual(await openFailures(nodes), [0, 0]);
        assert.equal(arrivedAfter(endpoint, beforeDismissed), 0);

        const closed = `dismissals/${dismissal.id}`;
        const reopening = await nodes.leat().send('POST', `/api/v2/${closed}/reopen`);
        assert.equal(reopening.status, 202);
        await nodes.crash();
        const { reopened } = await over(nodes, closed, 'done');
        assert.equal(reopened, failures / 2);
        assert.deepEqual(await openFailures(nodes), [failures / 2, failures / 2]);
      },
    );
  }
});
