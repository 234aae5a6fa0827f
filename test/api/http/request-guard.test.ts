import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { guardConnections } from '../../../src/api/http/connection-guard.ts';
import { pipelinedMax } from '../../../src/api/http/request-guard.ts';
import { createManualClock, type ManualClock } from '../../helpers/clock.ts';
import { stallMsDefault, waitFor } from '../../helpers/wait.ts';

const request = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

interface Guarded {
  readonly server: Server;
  readonly clock: ManualClock;
  /** Requests that were served. */
  handled(): number;
  rejected(): number;
  readonly warnings: object[];
}

/** A guarded server that listens; the test closes it. */
async function open(t: TestContext, respond: RequestListener): Promise<Guarded> {
  const counts = { handled: 0, rejected: 0 };
  const warnings: object[] = [];
  const clock = createManualClock();
  const server = createServer((received, response) => {
    counts.handled += 1;
    respond(received, response);
  });
  server.on('clientError', (_error, socket) => socket.destroy());
  guardConnections(server, {
    rule: { maxConnectionsPerAddress: 100, trustProxy: [] },
    clock,
    log: { warn: (facts) => warnings.push(facts) },
    count: () => (counts.rejected += 1),
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    server,
    clock,
    handled: () => counts.handled,
    rejected: () => counts.rejected,
    warnings,
  };
}

/** A connection and how many responses it has received. */
async function dial(server: Server): Promise<{ socket: Socket; responses: () => number }> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return { socket, responses: () => text.split('HTTP/1.1 200 OK').length - 1 };
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

describe('an idle connection', () => {
  const restMs = 72_000 + 16_000;

  for (const earlier of [0, 1]) {
    const name = `a connection ends with the server that began to close during its response ${earlier + 1}`;
    test(name, { timeout: stallMsDefault }, async (t) => {
      const pending: ServerResponse[] = [];
      const guarded = await open(t, (_request, response) => {
        response.writeHead(200, { 'content-length': 2 }).write('ok');
        pending.push(response);
      });
      guarded.server.keepAliveTimeout = 0; // Node's own timeout would end it too late.
      const { socket, responses } = await dial(guarded.server);
      for (let round = 1; round <= earlier; round += 1) {
        socket.write(request);
        await waitFor('an earlier response', () => responses() === round);
        pending.pop()?.end();
        await waitFor('the wait to begin', () => guarded.clock.pending === 1);
      }
      socket.write(request);
      await waitFor('the response', () => responses() === earlier + 1);
      const over = new Promise((resolve) => guarded.server.close(resolve));
      const ended = closed(socket);
      pending.pop()?.end();
      await Promise.all([ended, over]);
      assert.equal(guarded.clock.pending, 0);
    });
  }

  test('blank lines do not extend the timeout of an idle connection', async (t) => {
    const guarded = await open(t, (_request, response) => response.end());
    Object.assign(guarded.server, { keepAliveTimeout: 72_000, headersTimeout: 16_000 });
    const { socket, responses } = await dial(guarded.server);
    for (const round of [1, 2]) {
      socket.write(request);
      await waitFor('a response', () => responses() === round);
      await waitFor('the wait to begin', () => guarded.clock.pending === 1);
      for (let ms = 0; ms < restMs - 4000; ms += 4000) {
        socket.write('\r\n');
        await guarded.clock.advance(4000);
      }
      assert.equal(socket.destroyed, false);
    }
    const ended = closed(socket);
    await guarded.clock.advance(4000);
    await ended;
    assert.equal(guarded.rejected(), 0);
    assert.equal(guarded.clock.pending, 0);
  });

  test('a connection with a response under way is not idle', async (t) => {
    const pending: ServerResponse[] = [];
    const guarded = await open(t, (_request, response) => pending.push(response));
    const { socket, responses } = await dial(guarded.server);
    socket.write(request.repeat(2));
    await waitFor('the first request', () => pending.length === 1);
    pending[0]?.end();
    await waitFor('the second request', () => responses() === 1 && pending.length === 2);
    await guarded.clock.advance(10 * restMs);
    pending[1]?.end();
    await waitFor('the second response', () => responses() === 2);
    assert.equal(guarded.rejected(), 0);
    socket.destroy();
    await waitFor('no timer', () => guarded.clock.pending === 0);
  });
});

describe('pipelined requests', () => {
  for (const [name, respond] of Object.entries({
    'at once': (response: ServerResponse) => response.end(),
    later: (response: ServerResponse) => setImmediate(() => response.end()),
    never: () => {},
  })) {
    test(`thousands in one read, responded to ${name}: the connection is closed, most are not handled`, async (t) => {
      const guarded = await open(t, (_request, response) => respond(response));
      const { socket } = await dial(guarded.server);
      socket.write(request.repeat(5000));
      await closed(socket);
      // A read may end in the middle of the requests.
      assert.ok(guarded.handled() < 5 * pipelinedMax, `${guarded.handled()} handled`);
      assert.equal(guarded.rejected(), 1);
      assert.deepEqual(guarded.warnings, [
        { address: '127.0.0.1', limit: pipelinedMax, refused: 1 },
      ]);
    });
  }

  test('requests up to the limit get responses, repeatedly', async (t) => {
    const guarded = await open(t, (_request, response) => setImmediate(() => response.end()));
    const { socket, responses } = await dial(guarded.server);
    for (let round = 1; round <= 5; round += 1) {
      socket.write(request.repeat(pipelinedMax));
      await waitFor('the responses', () => responses() === round * pipelinedMax);
    }
    assert.equal(guarded.rejected(), 0);
    socket.destroy();
  });

  test('a request is handled once the response before it was written', async (t) => {
    const pending: ServerResponse[] = [];
    const guarded = await open(t, (_request, response) => pending.push(response));
    const { socket, responses } = await dial(guarded.server);
    socket.write(request.repeat(3));
    for (const count of [1, 2, 3]) {
      await waitFor('a request', () => guarded.handled() === count);
      assert.equal(responses(), count - 1);
      pending.at(-1)?.end();
      await waitFor('its response', () => responses() === count);
    }
    socket.destroy();
  });

  test('requests are counted per connection', async (t) => {
    const guarded = await open(t, () => {});
    const [one, other] = [await dial(guarded.server), await dial(guarded.server)];
    for (const { socket } of [one, other]) socket.write(request.repeat(pipelinedMax));
    await waitFor('the first request of each', () => guarded.handled() === 2);
    one.socket.write(request);
    await closed(one.socket);
    assert.equal(guarded.rejected(), 1);
    assert.equal(other.socket.destroyed, false);
    other.socket.destroy();
  });
});

describe('a body that becomes invalid', () => {
  const broken =
    'POST /last HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n';

  test('earlier requests get their responses', async (t) => {
    const guarded = await open(t, (_request, response) => setImmediate(() => response.end()));
    const { socket, responses } = await dial(guarded.server);
    const ended = closed(socket);
    socket.write(request.repeat(2) + broken);
    await ended;
    assert.equal(responses(), 2);
    assert.equal(guarded.handled(), 2, 'what is not valid is not served');
  });
});

describe('a request for an upgrade', () => {
  const upgrade = 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n';

  test('nothing that follows it is served before its response either', async (t) => {
    const pending: ServerResponse[] = [];
    const guarded = await open(t, (_request, response) => pending.push(response));
    const { socket, responses } = await dial(guarded.server);
    const ended = closed(socket);
    socket.write(request + upgrade);
    await waitFor('the first request', () => guarded.handled() === 1);
    const [peer] = pending.map((response) => response.req.socket);
    const before = peer?.bytesRead ?? 0;
    socket.write(request);
    await waitFor('the next request to be read', () => (peer?.bytesRead ?? 0) > before);
    pending[0]?.end();
    await waitFor('the request for an upgrade', () => guarded.handled() === 2);
    pending[1]?.end();
    await ended;
    assert.equal(responses(), 2);
    assert.equal(guarded.handled(), 2);
  });
});
