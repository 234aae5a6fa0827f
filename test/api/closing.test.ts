import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { openApiFixture } from './fixture.ts';

/** Reads from a socket until the text fits. */
async function readUntil(socket: Socket, pattern: RegExp): Promise<string> {
  let text = '';
  while (!pattern.test(text)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    text += chunk.toString();
  }
  return text;
}

describe('closing', () => {
  test('a request under way ends and its event is stored', async (t) => {
    const fixture = await openApiFixture();
    t.after(() => fixture.auth.close());
    const body = '{"type":"a.b","data":{}}';
    const head = (length: number, ...more: string[]): string =>
      [
        'POST /api/v2/events HTTP/1.1',
        'Host: a',
        `Authorization: Bearer ${fixture.token}`,
        'Content-Type: application/json',
        `Content-Length: ${length}`,
        ...more,
        '\r\n',
      ].join('\r\n');
    const socket = connect(fixture.port, '127.0.0.1');
    socket.write(head(body.length, 'Expect: 100-continue'));
    await readUntil(socket, /100 Continue/);
    const closed = fixture.app.close();
    socket.write(body);
    assert.match(await readUntil(socket, /"offset"/), /^HTTP\/1\.1 202 /);
    socket.end();
    await closed;
    assert.equal(await fixture.auth.store.log.head(1), 1);
  });

  test('idle connections end', async (t) => {
    const fixture = await openApiFixture();
    t.after(() => fixture.auth.close());
    const socket = connect(fixture.port, '127.0.0.1');
    socket.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
    await readUntil(socket, /"status":"ok"/);
    const ended = once(socket, 'close');
    socket.resume();
    await fixture.app.close();
    await ended;
    assert.ok(socket.destroyed);
  });

  test('the thread that reads bodies ends', async (t) => {
    const fixture = await openApiFixture();
    t.after(() => fixture.auth.close());
    const started = once(process, 'worker') as Promise<[Worker]>;
    const event = { type: 'a.b', data: { x: 'x'.repeat(50_000) } };
    assert.equal((await fixture.send('POST', '/events', event)).status, 202);
    const [worker] = await started;
    const ended = once(worker, 'exit');
    await fixture.app.close();
    await ended;
  });
});
