import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JsonText, slicedJson } from '../../../src/api/http/sliced-json.ts';
import { tellsPayloads, withheldResponse } from '../../../src/api/http/withhold.ts';
import { operation } from '../../../src/api/operation.ts';
import { describedOperations } from '../../../src/api/operations.ts';
import { closed } from '../../../src/schemas/schema.ts';
import { Type } from 'typebox';

async function withheld(body: unknown): Promise<unknown> {
  const response = await withheldResponse({ body });
  const written = await slicedJson(response.body);
  return JSON.parse(typeof written === 'string' ? written : Buffer.concat(written).toString());
}

const gone = { data: {}, withheld: true };

describe('withheldResponse', () => {
  test('the payload of an event is gone at any depth, in objects, lists and JSON texts', async () => {
    const event = { specversion: '1.0', id: 'evt_1', data: { a: { data: 'x' } } };
    const text = new JsonText(
      JSON.stringify({ event }).slice(0, 9),
      JSON.stringify({ event }).slice(9),
    );
    const shown = { specversion: '1.0', id: 'evt_1', ...gone };
    assert.deepEqual(await withheld({ event }), { event: shown });
    assert.deepEqual(await withheld([text, event]), [{ event: shown }, shown]);
    assert.deepEqual(await withheld({ a: { b: [[{ c: text }]] }, list: [text], n: 1 }), {
      a: { b: [[{ c: { event: shown } }]] },
      list: [{ event: shown }],
      n: 1,
    });
    const { body } = await withheldResponse({ json: JSON.stringify({ event, status: 'failed' }) });
    assert.deepEqual(body, { event: shown, status: 'failed' });
  });

  test('numbers stay as they are', async () => {
    const json = '{"user_metadata":{"id":1546130668394913822,"far":[1e400]}}';
    const { body } = await withheldResponse({ body: new JsonText(json) });
    assert.equal(JSON.stringify(body), json);
  });

  test('so is one without other fields of an event, in base64, a text or null', async () => {
    assert.deepEqual(await withheld({ data: 'x' }), gone);
    assert.deepEqual(await withheld({ data: null }), gone);
    assert.deepEqual(await withheld({ id: 1, data_base64: 'eA==' }), { id: 1, ...gone });
    assert.deepEqual(await withheld({ specversion: '1.0' }), { specversion: '1.0', ...gone });
    const list = { specversion: '1.0', data: ['x'] };
    assert.deepEqual(await withheld(list), { specversion: '1.0', ...gone });
  });

  test('lists that are called data stay, without the payloads in them', async () => {
    const stats = { bucket: 'hour', data: [{ at: 'now', delivered: 3 }] };
    assert.deepEqual(await withheld(stats), stats);
    assert.deepEqual(await withheld({ data: [{ data: { a: 1 } }] }), { data: [gone] });
  });

  test('an error message ends before the body of the response', async () => {
    const messages = ['500 - a - b', '503', 'timeout', 'blocked address: 127.0.0.1', '500 - ', ''];
    const attempts = messages.map((message) => ({ error_message: message }));
    assert.deepEqual(await withheld({ attempts, error_message: null }), {
      attempts: ['500', '503', 'timeout', 'blocked address: 127.0.0.1', '500', ''].map(
        (message) => ({ error_message: message }),
      ),
      error_message: null,
    });
  });

  test('a field called __proto__ stays a field', async () => {
    const body = { json: '{"__proto__":{"data":{"a":1}},"specversion":"1.0"}' };
    const { body: shown } = await withheldResponse(body);
    assert.equal(
      JSON.stringify(shown),
      '{"__proto__":{"data":{},"withheld":true},"specversion":"1.0","data":{},"withheld":true}',
    );
  });

  test('status and headers stay; without a body there is none', async () => {
    const response = { status: 202, headers: { link: '<x>' } };
    assert.deepEqual(await withheldResponse(response), response);
  });
});

describe('tellsPayloads', () => {
  test('lists of events by a filter do, and live bodies', () => {
    const telling = describedOperations().filter(tellsPayloads);
    assert.deepEqual(
      telling.map(({ operationId }) => operationId),
      ['listEvents', 'pullEvents'],
    );
  });

  test('an operation that is new does, when its body is live', () => {
    const added = operation({
      operationId: 'tailEvents',
      method: 'GET',
      path: '/tail',
      summary: '',
      tag: '',
      scopes: [],
      lifecycle: 'Early Access',
      success: 200,
      query: closed({ take: Type.Optional(Type.Integer()) }),
      responseType: 'text/event-stream',
      handle: () => ({}),
    });
    assert.equal(tellsPayloads(added), true);
  });
});
