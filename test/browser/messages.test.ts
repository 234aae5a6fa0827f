import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, createServer as createTcpServer, type AddressInfo, type Server } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { sharedBrowser } from '../helpers/console.ts';
import { openMessageApi, type MessageApi } from '../messages/fixture.ts';

let browser: Browser;
let api: MessageApi;
let pages: Server;
let wire: Wire;
/** The allowed origin, and another one that serves the same page. */
let allowed: string;
let other: string;
let token: string;

before(async () => {
  browser = await sharedBrowser();
  pages = createServer((_request, reply) => {
    reply.setHeader('content-type', 'text/html').end('<!doctype html><title>A page</title>');
  });
  const port = await listen(pages);
  allowed = `http://localhost:${port}`;
  other = `http://127.0.0.1:${port}`;
  api = await openMessageApi(undefined, { pageOrigin: allowed });
  wire = await openWire(api.port);
  token = await api.token();
});
after(async () => {
  await wire.close();
  await api.close();
  pages.close();
});

/** A proxy to the message API that records its traffic. */
interface Wire {
  readonly url: string;
  /** Request lines, in the order in which they were sent. */
  requests(): string[];
  close(): Promise<void>;
}

async function openWire(port: number): Promise<Wire> {
  let text = '';
  const server = createTcpServer((socket) => {
    const onward = connect(port, '127.0.0.1');
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    socket.pipe(onward).pipe(socket);
    socket.on('error', () => onward.destroy());
    onward.on('error', () => socket.destroy());
  });
  const own = await listen(server);
  return {
    url: `http://localhost:${own}/api/messages`,
    requests: () => text.match(/^[A-Z]+ \S+(?= HTTP\/1\.1)/gm) ?? [],
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}

async function listen(server: Server): Promise<number> {
  server.listen(0);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

interface Outcome {
  /** The text that the script of the page has read, or its error. */
  readonly read: { readonly status: number; readonly body: unknown } | { readonly failed: string };
  /** The messages on the console of Chromium. */
  readonly logged: string;
}

/** Returns the result of `fetch` in a script of a page of this origin. */
async function fetchFrom(origin: string, path: string, init: object = {}): Promise<Outcome> {
  const context = await browser.newContext();
  try {
    const page: Page = await context.newPage();
    const logged: string[] = [];
    page.on('console', (line) => logged.push(line.text()));
    await page.goto(origin);
    const read = await page.evaluate<Outcome['read'], [string, object]>(
      async ([url, options]) => {
        try {
          const response = await fetch(url, options);
          return { status: response.status, body: await response.json() };
        } catch (error) {
          return { failed: String(error) };
        }
      },
      [`${wire.url}/${path}`, init],
    );
    return { read, logged: logged.join('\n') };
  } finally {
    await context.close();
  }
}

function withToken(text: string): object {
  return { headers: { authorization: `Bearer ${text}` } };
}

describe('a page of the allowed origin', () => {
  const texts = {
    public: 'This is a public message.',
    protected: 'This is a protected message.',
    admin: 'This is an admin message.',
  };
  for (const [path, text] of Object.entries(texts)) {
    test(`a page of the allowed origin reads the ${path} message`, async () => {
      const init = path === 'public' ? {} : withToken(token);
      const seen = wire.requests().length;
      const { read, logged } = await fetchFrom(allowed, path, init);
      assert.deepEqual(read, { status: 200, body: { text } }, logged);
      const preflight = path === 'public' ? [] : [`OPTIONS /api/messages/${path}`];
      assert.deepEqual(wire.requests().slice(seen), [...preflight, `GET /api/messages/${path}`]);
    });
  }

  test('a page of the allowed origin can read the reason of a refusal', async () => {
    const missing = await fetchFrom(allowed, 'protected');
    assert.deepEqual(missing.read, { status: 401, body: { message: 'Requires authentication' } });
    const bad = await fetchFrom(allowed, 'admin', withToken('nonsense'));
    assert.deepEqual(bad.read, { status: 401, body: { message: 'Bad credentials' } });
    const weak = withToken(await api.token({ permissions: [] }));
    const denied = await fetchFrom(allowed, 'admin', weak);
    assert.deepEqual(denied.read, { status: 403, body: { message: 'Permission denied' } });
    const nowhere = await fetchFrom(allowed, 'nowhere');
    assert.deepEqual(nowhere.read, { status: 404, body: { message: 'Not Found' } });
  });

  test('a page of the allowed origin can send GET only', async () => {
    const { read, logged } = await fetchFrom(allowed, 'public', { method: 'PUT' });
    assert.ok('failed' in read, JSON.stringify(read));
    assert.match(logged, /Method PUT is not allowed by Access-Control-Allow-Methods/);
  });

  test('a page of the allowed origin cannot send cookies', async () => {
    const { read, logged } = await fetchFrom(allowed, 'public', { credentials: 'include' });
    assert.ok('failed' in read, JSON.stringify(read));
    assert.match(logged, /Access-Control-Allow-Credentials/);
  });
});

describe('a page of another origin', () => {
  for (const path of ['public', 'protected', 'admin']) {
    test(`a page of another origin cannot read the ${path} message in Chromium`, async () => {
      const { read, logged } = await fetchFrom(
        other,
        path,
        path === 'public' ? {} : withToken(token),
      );
      assert.deepEqual(read, { failed: 'TypeError: Failed to fetch' });
      assert.match(logged, /blocked by CORS policy/);
      assert.ok(logged.includes(other), logged);
    });
  }

  test('a page of another origin sends no request after its preflight', async () => {
    const seen = wire.requests().length;
    await fetchFrom(other, 'admin', withToken(token));
    assert.deepEqual(wire.requests().slice(seen), ['OPTIONS /api/messages/admin']);
  });

  test('a page of another origin cannot embed a message either', async () => {
    const { read } = await fetchFrom(other, 'public', { mode: 'no-cors' });
    assert.ok(
      'failed' in read,
      'Cross-Origin-Resource-Policy, or an opaque response without content',
    );
  });
});
