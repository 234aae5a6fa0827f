import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { readBody } from '../../../src/api/http/body.ts';

test('readBody: a large body is read whole, one chunk per turn of the event loop', async (t) => {
  const sent = Buffer.alloc(2 * 1024 * 1024, 'leat');
  /** The chunks that came in each turn. */
  const turns: number[] = [];
  let turn = 0;
  const server = createServer((incoming, response) => {
    incoming.on('data', () => {
      turns[turn] = (turns[turn] ?? 0) + 1;
    });
    const next = (): void => {
      turn += 1;
      if (!response.writableEnded) setImmediate(next);
    };
    next();
    const read = readBody(incoming, response, {}, { bytesMax: sent.length });
    void read.then(({ bytes }) => response.end(String(bytes?.equals(sent))));
  });
  server.listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const headers = { 'content-type': 'application/json', 'content-length': sent.length };
  const outgoing = request({ host: '127.0.0.1', port, method: 'POST', headers });
  outgoing.end(sent);
  const [response] = await once(outgoing, 'response');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  assert.equal(text, 'true');
  const counts = turns.filter((count) => count > 0);
  // The chunk after the limit arrives before the turn can end.
  assert.ok(Math.max(...counts) <= 2, counts.join());
});
