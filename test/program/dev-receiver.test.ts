import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { startReceiver } from '../../src/program/dev/receiver.ts';
import type { Webhook } from '../../src/cli/webhook.ts';

describe('the receiver of leat dev', () => {
  const pages: [name: string, headers: OutgoingHttpHeaders][] = [
    ['another site', { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
    [
      'another port of this machine',
      { origin: 'http://127.0.0.1:1', 'sec-fetch-site': 'same-site' },
    ],
    ['an older browser, which sends Origin alone', { origin: 'https://evil.example' }],
    ['a file or a sandboxed frame', { origin: 'null' }],
    ['a request without Origin', { 'sec-fetch-site': 'cross-site' }],
    // Its host is the name of the page, its address that of the receiver.
    ['a name that leads to loopback', { host: 'evil.example', origin: 'http://evil.example' }],
  ];
  test('requests of web pages are 403 and change nothing; those of curl do what they say', async (t) => {
    const webhooks: Webhook[] = [];
    const receiver = await startReceiver({
      clock: { now: () => 0 },
      onWebhook: (webhook) => webhooks.push(webhook),
      note: assert.fail,
    });
    t.after(receiver.close);
    const post = async (path: string, headers: OutgoingHttpHeaders = {}): Promise<number> => {
      const sent = request(receiver.url + path, { method: 'POST', headers, agent: false }).end(
        '{}',
      );
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      await text(response);
      return response.statusCode ?? 0;
    };
    for (const [name, headers] of pages) {
      assert.equal(await post('/break', headers), 403, name);
      assert.equal(await post('/', headers), 403, name);
    }
    assert.deepEqual([receiver.isBroken, webhooks.length], [false, 0]);
    assert.deepEqual([await post('/break'), await post('/')], [200, 503]);
    assert.equal(await post('/repair', { origin: 'https://evil.example' }), 403);
    assert.equal(receiver.isBroken, true);
    assert.deepEqual([await post('/repair'), await post('/')], [200, 204]);
    assert.equal(webhooks.length, 2);
  });
});
