import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { authority } from '../helpers/certificates.ts';
import {
  bootstrapClient,
  createTempStore,
  end,
  freePort,
  type Running,
  runLeat,
  spawnLeat,
  startLeat,
  storeEnvironment,
  type TempStore,
  waitFor,
} from '../helpers/leat.ts';
import { query, sharedPostgres } from '../helpers/postgres.ts';
import { programPath } from '../helpers/program.ts';
import {
  type ProxyName,
  readText,
  type ReverseProxy,
  sendSecurely,
  startReverseProxy,
} from '../helpers/reverse-proxy.ts';
import { eventType } from '../helpers/traffic.ts';

/** The files of `deploy/` in nginx and Caddy, in front of one node that runs and one that does not. */

for (const name of ['nginx', 'caddy'] satisfies ProxyName[]) {
  const skip = programPath(name) === undefined && `${name} is not installed`;
  describe(`${name} in front of Leat`, { skip }, () => proxyTests(name));
}

function proxyTests(name: ProxyName): void {
  let tempStore: TempStore;
  let leat: Running;
  let proxy: ReverseProxy;
  let messagesPort: number;
  let authorization: string;
  const json = (): Record<string, string> => ({
    authorization,
    'content-type': 'application/json',
  });

  before(async () => {
    tempStore = await createTempStore();
    const port = await freePort();
    leat = await startLeat(tempStore, {
      LEAT_TRUST_PROXY: '127.0.0.1',
      LEAT_PUBLIC_URL: `https://localhost:${port}`,
    });
    authorization = `Bearer ${leat.token}`;
    messagesPort = await freePort();
    proxy = await startReverseProxy(name, {
      port,
      nodes: [leat.port, await freePort()],
      messages: [await freePort(), messagesPort],
    });
    // Until its health check has failed once, Caddy may send a POST to the node that does not run.
    if (name === 'caddy') {
      await waitFor('the health check', () => proxy.log().includes('health_checker.active'));
    }
  });
  after(async () => {
    await proxy?.close();
    await leat?.kill();
    await tempStore?.remove();
  });

  test('a node that is down fails no request, not even one that publishes', async () => {
    for (let count = 0; count < 20; count += 1) {
      const response = await publish(json(), [event({ count })]);
      assert.equal(response.statusCode, 202, await readText(response));
    }
  });

  test('the sign-in to the console sets a cookie for HTTPS only', async () => {
    const settings = { ...storeEnvironment(tempStore), LEAT_PUBLIC_URL: proxy.url };
    const { output } = await runLeat(['console'], settings);
    const link = new URL(/https:\S+/.exec(output)?.[0] ?? '');
    assert.equal(link.origin, proxy.url);
    const response = await sendSecurely(`${proxy.url}/console/session`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        origin: proxy.url,
        'leat-console': '1',
      },
      body: JSON.stringify({ code: new URLSearchParams(link.hash.slice(1)).get('code') }),
    });
    assert.equal(response.statusCode, 201, await readText(response));
    assert.match(response.headers['set-cookie']?.[0] ?? '', /; Secure/);
  });

  test('a pull receives an event while it stays open', async () => {
    const response = await sendSecurely(`${proxy.url}/api/v2/events`, {
      headers: { authorization },
    });
    assert.equal(response.statusCode, 200);
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    const published = await publish(json(), [event({ pulled: true })]);
    assert.equal(published.statusCode, 202);
    await waitFor('the event', () => text.includes('pulled'), { progress: () => text });
    assert.equal(response.complete, false);
    response.destroy();
  });

  test('leat events tail prints an event while it runs', async (t) => {
    const ca = join(tempStore.folder, 'ca.pem');
    await writeFile(ca, authority);
    const { child, output } = spawnLeat(['events', 'tail'], {
      HOME: tempStore.folder,
      LEAT_URL: proxy.url,
      LEAT_CA: ca,
      LEAT_CLIENT_ID: bootstrapClient.id,
      LEAT_CLIENT_SECRET: bootstrapClient.secret,
    });
    t.after(() => end(child, 'SIGKILL'));
    let number = 0;
    await waitFor(
      'a line of the tail',
      async () => {
        number += 1;
        (await publish(json(), [event({ tailed: number })])).resume();
        return output().includes('tailed');
      },
      { progress: output },
    );
    assert.equal(child.exitCode, null);
  });

  test('4 MiB of events are accepted, and Leat itself rejects more', async () => {
    const events = Array.from({ length: 16 }, () => event({ text: 'x'.repeat(255 * 1024) }));
    const response = await publish(json(), events);
    assert.equal(response.statusCode, 202, await readText(response));
    const more = [...events, event({ text: 'x'.repeat(200 * 1024) })];
    const rejected = await publish(json(), more);
    assert.equal(rejected.statusCode, 413);
    assert.match(await readText(rejected), /"statusCode":413,"error":"Payload Too Large"/);
  });

  test('the audit log has the address of the client, whatever the client claims', async () => {
    const created = await sendSecurely(`${proxy.url}/api/v2/event-streams`, {
      method: 'POST',
      localAddress: '127.0.0.2',
      headers: {
        ...json(),
        'x-forwarded-for': '203.0.113.9',
        'x-forwarded-host': 'other.example.com',
        'x-forwarded-proto': 'http',
      },
      body: JSON.stringify({
        name: `from-127-0-0-2`,
        subscriptions: [{ event_type: eventType }],
        destination: {
          type: 'webhook',
          configuration: {
            webhook_endpoint: 'http://127.0.0.1:9/',
            webhook_authorization: { method: 'bearer', token: 'token' },
          },
        },
      }),
    });
    const { id } = JSON.parse(await readText(created)) as { id: string };
    await waitFor('the entry', async () => {
      const response = await leat.send('GET', `/api/v2/logs?target=${id}`);
      const entries = (await response.json()) as { ip?: string }[];
      return entries.length > 0 && entries.every(({ ip }) => ip === '127.0.0.2');
    });
  });

  test('HTTP/2: requests and a pull share a connection', async () => {
    const session = connectHttp2(proxy.url, { ca: authority });
    try {
      const pull = session.request({ ':path': '/api/v2/events', authorization });
      let text = '';
      pull.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      const [pullHead] = (await once(pull, 'response')) as [Record<string, unknown>];
      assert.equal(pullHead[':status'], 200);
      const list = session.request({ ':path': '/api/v2/event-streams', authorization });
      const [head] = (await once(list, 'response')) as [Record<string, unknown>];
      assert.equal(head[':status'], 200);
      list.close();
      const published = await publish(json(), [event({ overHttp2: true })]);
      assert.equal(published.statusCode, 202);
      await waitFor('the event', () => text.includes('overHttp2'), { progress: () => text });
    } finally {
      session.destroy();
    }
  });

  test('the message API has a host of its own, which serves nothing else', async (t) => {
    const { child, output } = spawnLeat(['messages'], {
      HOME: tempStore.folder,
      PORT: String(messagesPort),
      CLIENT_ORIGIN_URL: 'https://www.example.com',
      TOKEN_AUDIENCE: 'https://messages.example.com',
      TOKEN_ISSUER_DOMAIN: 'issuer.example.com',
    });
    t.after(() => end(child, 'SIGKILL'));
    const get = async (path: string): Promise<number | undefined> => {
      const headers = { host: 'messages.localhost' };
      const response = await sendSecurely(`${proxy.url}${path}`, { headers });
      response.resume();
      return response.statusCode;
    };
    const isServed = async (): Promise<boolean> => (await get('/api/messages/public')) === 200;
    await waitFor('the message API', isServed, { progress: () => output() + proxy.log() });
    assert.equal(await get('/api/v2/event-streams'), 404);
  });

  test('nodes that are restarted one after the other lose and repeat no event', async (t) => {
    const server = await sharedPostgres();
    const store = await server.createDatabase();
    const [first, second, port] = [await freePort(), await freePort(), await freePort()];
    const start = async (own: number): Promise<Running> => {
      const node = await startLeat(tempStore, {
        LEAT_STORE: store,
        LEAT_PORT: String(own),
        LEAT_TRUST_PROXY: '127.0.0.1',
        LEAT_PUBLIC_URL: `https://localhost:${port}`,
      });
      t.after(() => node.kill());
      return node;
    };
    let nodes = [await start(first), await start(second)];
    const nodesProxy = await startReverseProxy(name, {
      port,
      nodes: [first, second],
      messages: [await freePort(), await freePort()],
    });
    t.after(() => nodesProxy.close());
    const headers = { ...json(), authorization: `Bearer ${nodes[0]?.token}` };
    const ending = new AbortController();
    const publishing = publishEach(nodesProxy.url, headers, ending.signal);
    const isReady = async (): Promise<boolean> =>
      (await sendSecurely(`${nodesProxy.url}/readyz`)).resume().statusCode === 200;
    for (const own of [first, second]) {
      await nodes.find((node) => node.port === own)?.stop();
      nodes = [...nodes.filter((node) => node.port !== own), await start(own)];
      await waitFor('the service to be ready', isReady);
    }
    ending.abort();
    const { acknowledged, statuses } = await publishing;
    const others = [...statuses].filter((status) => ![202, 502, 503].includes(status ?? 0));
    t.diagnostic(`responses while nodes were restarted: ${[...statuses].join(', ')}`);
    assert.deepEqual(others, []);
    const [row] = await query<{ events: number }>(
      store,
      'select count(*)::int as events from events',
    );
    assert.ok(acknowledged > 0);
    assert.equal(row?.events, acknowledged);
  });

  async function publish(
    headers: Record<string, string>,
    events: readonly object[],
  ): ReturnType<typeof sendSecurely> {
    const body = JSON.stringify(events);
    return sendSecurely(`${proxy.url}/api/v2/events`, { method: 'POST', headers, body });
  }
}

/** Publishes one event after the other until it is aborted, each again until it is acknowledged. */
async function publishEach(
  url: string,
  headers: Record<string, string>,
  until: AbortSignal,
): Promise<{ acknowledged: number; statuses: Set<number | undefined> }> {
  const statuses = new Set<number | undefined>();
  let acknowledged = 0;
  while (!until.aborted) {
    const body = JSON.stringify({ ...event({}), id: `order-${acknowledged + 1}` });
    const request = { method: 'POST', headers, body };
    const response = await sendSecurely(`${url}/api/v2/events`, request);
    statuses.add(response.statusCode);
    await readText(response);
    if (response.statusCode === 202) acknowledged += 1;
  }
  return { acknowledged, statuses };
}

function event(object: object): object {
  return { type: eventType, data: { object } };
}
