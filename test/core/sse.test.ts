import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { makeBody } from '../../src/core/envelope.ts';
import { formatOffset } from '../../src/core/offset.ts';
import { errorFrame, eventFrame, greeting, heartbeat, offsetFrame } from '../../src/core/sse.ts';

describe('frames of a pull', () => {
  test('greeting, heartbeat and frames have the documented text', () => {
    assert.equal(greeting, ':connected\n\nretry: 2000\n\n');
    assert.equal(heartbeat, ': heartbeat\n\n');
    assert.equal(
      eventFrame({ offset: 42, id: 'evt_1', type: 'user.created', body: '{"id":"evt_1"}' }),
      `event: user.created\nid: ${formatOffset(42, 'evt_1')}\n` +
        `data: {"offset":"${formatOffset(42, 'evt_1')}","event":{"id":"evt_1"}}\n\n`,
    );
    assert.equal(
      offsetFrame({ offset: 42 }),
      'event: offset-only\nid: MDAwMDAwMDAwMDQy\ndata: {"offset":"MDAwMDAwMDAwMDQy"}\n\n',
    );
    assert.equal(
      errorFrame('cursor_expired', { offset: 42 }),
      'event: error\ndata: {"error":{"code":"cursor_expired",' +
        '"message":"Cursor points to data no longer available in the stream.",' +
        '"offset":"MDAwMDAwMDAwMDQy"}}\n\n',
    );
  });

  test('an error frame has no id, so a client resumes after the last event it read', () => {
    for (const code of ['processing_error', 'service_unavailable'] as const) {
      assert.doesNotMatch(errorFrame(code, { offset: 1 }), /^id:/m);
    }
  });

  test('an event frame is one block for any data', { tags: ['long'] }, () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('\n', '\r', '\r\n\r\n', 'id: 9', '\n\nevent: error\ndata: {}\n\n', '\uFEFF'),
    );
    fc.assert(
      fc.property(fc.dictionary(text, text), (data) => {
        const facts = { id: 'evt_1', type: 'a.made', time: 0, tenantName: 'main' };
        const body = makeBody({ ...facts, data, service: 'leat', prefix: 'svc' });
        const lines = eventFrame({ offset: 7, id: 'evt_1', type: 'a.made', body }).split(
          /\r\n|\r|\n/,
        );
        assert.equal(lines.length, 5);
        const sent = JSON.parse(lines[2]?.slice('data: '.length) ?? '');
        assert.deepEqual(sent.event.data, JSON.parse(JSON.stringify(data)));
      }),
    );
  });
});
