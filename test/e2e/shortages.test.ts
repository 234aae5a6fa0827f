import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { startAlertReceiver, type AlertReceiver } from '../helpers/alerts.ts';
import { createStream, eventsOf, freshType, publishAll, statsOf } from '../helpers/api-client.ts';
import { type DnsAnswer, startDns } from '../helpers/dns.ts';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { freePort, type Running, startFreshLeat, waitFor } from '../helpers/leat.ts';
import { openNodeInspector } from '../helpers/node-inspector.ts';
import { readExposition } from '../helpers/prometheus.ts';

/** What Leat itself is short of is no receiver's fault: each case has streams with two attempts per event. */

const run = promisify(execFile);
const isLinux = process.platform === 'linux';

interface Fixture {
  readonly leat: Running;
  readonly endpoint: Endpoint;
  readonly chat: AlertReceiver;
  /** Creates streams, and publishes so many events for all of them. */
  publish(events: number): Promise<void>;
  /** Asserts that each event arrived, that no attempt failed, and that the operator heard of each shortage once. */
  delivered(resource: string): Promise<void>;
}

const streamCount = 10;

async function openFixture(
  t: TestContext,
  host: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Fixture> {
  const endpoint = await startEndpoint(
    (response) => void setTimeout(() => response.writeHead(204).end(), 20),
  );
  const chat = await startAlertReceiver();
  const metricsPort = await freePort();
  const leat = await startFreshLeat(t, {
    LEAT_RETRY_DELAYS_MS: '0',
    LEAT_MONITOR_INTERVAL_SECONDS: '1',
    LEAT_ALERT_WEBHOOK_URL: chat.url,
    LEAT_METRICS_PORT: String(metricsPort),
    LEAT_LOG_LEVEL: 'info',
    ...settings,
  });
  t.after(() => Promise.all([chat.close(), endpoint.close()]));
  const types = Array.from({ length: streamCount }, () => freshType());
  const streams = await Promise.all(
    types.map((type, n) =>
      createStream(leat, `http://${host}:${endpoint.port}/${n}`, { types: [type] }),
    ),
  );
  let expected = 0;
  return {
    leat,
    endpoint,
    chat,
    publish: async (events) => {
      for (const type of types) {
        for (let left = events / streamCount; left > 0; left -= 100) {
          await publishAll(leat, eventsOf(type, Math.min(left, 100)));
        }
      }
      expected += events;
    },
    delivered: async (resource) => {
      const arrived = (): number => new Set(endpoint.arrivals.map(({ event }) => event.id)).size;
      await waitFor('every event', () => arrived() === expected, { progress: arrived });
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      const attempts = readExposition(text).samples('leat_attempts_total');
      const failed = attempts.filter(
        ({ labels, value }) => labels['outcome'] !== 'delivered' && value > 0,
      );
      assert.deepEqual(failed, []);
      for (const { id } of streams) {
        const { failed: failures } = await statsOf(leat, id);
        assert.equal(failures, 0);
      }
      // A shortage is over after 10 s; on a busy machine another one may follow.
      const changes = leat.output().match(/this node is (?:not )?short/g) ?? [];
      const inTurn = changes.map((_, at) => `this node is ${at % 2 === 0 ? '' : 'not '}short`);
      assert.deepEqual(changes, inTurn);
      await waitFor('the alert', () => chat.system().length > 0);
      const alerts = chat.system().map((alert) => [alert.alert, Object(alert)['resource']]);
      assert.deepEqual(alerts, [['node_shortage', resource]]);
    },
  };
}

/** Limits the file descriptors of a running process; `undefined` for as many as at its start. */
async function limitDescriptors({ child: { pid } }: Running, limit: number): Promise<void> {
  await run('prlimit', ['--pid', String(pid), `--nofile=${limit}:`]);
}

async function openDescriptors({ child: { pid } }: Running): Promise<number> {
  return (await readdir(`/proc/${pid}/fd`)).length;
}

async function lacksDescriptors(t: TestContext, events: number, threads: string): Promise<void> {
  const fixture = await openFixture(t, '127.0.0.1', { LEAT_SENDER_THREADS: threads });
  const { leat } = fixture;
  // Connects the client, and starts what a first event starts.
  await fixture.publish(streamCount);
  await waitFor('the first events', () => fixture.endpoint.arrivals.length === streamCount);
  await limitDescriptors(leat, (await openDescriptors(leat)) + 2);
  await fixture.publish(events);
  await waitFor('the shortage', () => leat.output().includes('this node is short'));
  await limitDescriptors(leat, 4096);
  await fixture.delivered('descriptors');
}

for (const threads of ['0', '1']) {
  test(
    `too few file descriptors cost no receiver an attempt (10000 events, sender threads: ${threads})`,
    { skip: !isLinux, tags: ['long'] },
    async (t) => lacksDescriptors(t, 10_000, threads),
  );
}

test(
  'a sender thread without memory costs no receiver an attempt (10000 events)',
  { tags: ['long'] },
  async (t) => {
    const fixture = await openFixture(t, '127.0.0.1', {
      LEAT_SENDER_THREADS: '1',
      NODE_OPTIONS: '--inspect=127.0.0.1:0 --max-old-space-size=160',
    });
    const { leat, endpoint } = fixture;
    await fixture.publish(streamCount);
    await waitFor('the first events', () => endpoint.arrivals.length === streamCount);
    const inspector = await openNodeInspector(t, leat);
    const fill = 'for (const all = []; ; ) all.push(new Array(1e5).fill({}))';
    const published = fixture.publish(10_000);
    // In one thread after the other.
    for (const arrived of [100, 200, 300]) {
      await waitFor(`${arrived} events`, () => endpoint.arrivals.length >= arrived, {
        progress: () => endpoint.arrivals.length,
      });
      await inspector.evaluateIn('sender', fill);
    }
    await published;
    await waitFor('the shortage', () => leat.output().includes('this node is short'));
    await fixture.delivered('threads');
  },
);

const failing: readonly DnsAnswer[] = ['silence', 'failure'];

async function lacksNameServers(t: TestContext, events: number, answer: DnsAnswer): Promise<void> {
  let present: DnsAnswer = answer;
  const dns = await startDns(() => present);
  t.after(() => dns.close());
  const settings = { LEAT_DNS_SERVERS: dns.servers.join(',') };
  const fixture = await openFixture(t, 'receiver.test', settings);
  await fixture.publish(events);
  await waitFor('the shortage', () => fixture.leat.output().includes('this node is short'));
  assert.equal(fixture.endpoint.arrivals.length, 0);
  present = ['127.0.0.1'];
  await fixture.delivered('name servers');
}

for (const answer of failing) {
  test(
    `name servers of this machine that are away (${String(answer)}) cost no receiver an attempt (10000 events)`,
    { tags: ['long'] },
    async (t) => lacksNameServers(t, 10_000, answer),
  );
}

/** In a network of its own: the range of ports is that of a whole network. */
const isOwnNetwork = process.env['SHORTAGES_OWN_NETWORK'] === '1';
const portTitle = 'too few ports cost no receiver an attempt (10000 events)';

async function limitPorts(range: string): Promise<void> {
  await writeFile('/proc/sys/net/ipv4/ip_local_port_range', range);
}

async function lacksPorts(t: TestContext): Promise<void> {
  const fixture = await openFixture(t, '127.0.0.1', { LEAT_SENDER_THREADS: '1' });
  await fixture.publish(streamCount);
  await waitFor('the first events', () => fixture.endpoint.arrivals.length === streamCount);
  await limitPorts('60000 60007');
  await fixture.publish(10_000);
  const { leat } = fixture;
  await waitFor('the shortage', () => leat.output().includes('this node is short'));
  await limitPorts('32768 60999');
  await fixture.delivered('ports');
}

test(portTitle, { tags: ['long'] }, async (t) => {
  if (isOwnNetwork) return lacksPorts(t);
  const own = ['--net', 'sh', '-c', 'ip link set lo up'];
  const isPossible = await run('unshare', own).then(
    () => true,
    () => false,
  );
  if (!isPossible) return t.skip('this process may not make a network of its own');
  const command = `ip link set lo up && exec "$0" --test --test-name-pattern "^too few ports" "$1"`;
  const file = new URL(import.meta.url).pathname;
  const env = { ...process.env, SHORTAGES_OWN_NETWORK: '1', NODE_TEST_CONTEXT: undefined };
  await run('unshare', ['--net', 'sh', '-c', command, process.execPath, file], { env });
});

test(
  'eighty publishers and few file descriptors: the service goes on',
  { skip: !isLinux, tags: ['long'] },
  async (t) => {
    const fixture = await openFixture(t, '127.0.0.1');
    const { leat } = fixture;
    await fixture.publish(streamCount);
    await limitDescriptors(leat, 64);
    const type = freshType();
    const answers = Promise.allSettled(
      Array.from({ length: 80 }, async () => {
        for (let n = 0; n < 10; n += 1) await publishAll(leat, eventsOf(type, 1));
      }),
    );
    await waitFor('all descriptors to be in use', async () => (await openDescriptors(leat)) >= 63);
    await limitDescriptors(leat, 4096);
    await answers;
    assert.equal(leat.child.exitCode, null);
    await fixture.publish(500);
    const arrived = (): number => fixture.endpoint.arrivals.length;
    await waitFor('the events', () => arrived() === streamCount + 500, { progress: arrived });
  },
);
