import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import type { Running } from '../helpers/leat.ts';
import {
  createStream,
  freshName,
  freshType,
  publishAll,
  streamBody,
  waitForStats,
  type StreamBody,
} from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

let leat: Running;
let endpoint: Endpoint;

runServer({}, (running) => {
  leat = running;
});
before(async () => {
  endpoint = await startEndpoint();
});
after(async () => {
  await endpoint.close();
});

describe('ambiguous JSON', () => {
  test('a duplicate field is refused or the last one counts, never both', async () => {
    const [first, last] = [freshName(), freshName()];
    const body = JSON.stringify(streamBody(endpoint.url, { name: last }));
    const twice = body.replace('{', `{"name":"${first}",`);
    const response = await leat.send('POST', '/api/v2/event-streams', twice);
    assert.ok(response.status === 400 || response.status === 201);
    if (response.status === 201) assert.equal(((await response.json()) as StreamBody).name, last);
  });

  test('numbers, key order and Unicode of data arrive as they were sent', async () => {
    const type = freshType();
    const own = await createStream(leat, endpoint.url, { types: [type] });
    const data =
      '{"z":1,"a":12345678901234567890,"10":1.10,"2":-0,"e":1e400,' +
      '"text":"\\u00e4 \\ud83d\\ude00 \\u2028 </script> \\\\u0000"}';
    const body = `{"type":"${type}","data":${data}}`;
    const response = await leat.send('POST', '/api/v2/events', body);
    assert.equal(response.status, 202, await response.clone().text());
    const { id } = (await response.json()) as { id: string };
    await waitForStats(leat, own.id, { delivered: 1 });
    const sent = endpoint.of(id)[0]?.body ?? '';
    for (const part of ['12345678901234567890', '1.10', '-0', '1e400']) {
      assert.ok(sent.includes(`:${part}`), `${part} in ${sent}`);
    }
    const { text } = JSON.parse(sent).data as { text: string };
    assert.equal(text, 'ä 😀 \u2028 </script> \\u0000');
  });

  test('an incomplete character is refused or replaced, and later events arrive', async () => {
    const type = freshType();
    const own = await createStream(leat, endpoint.url, { types: [type] });
    const statuses = [];
    for (const text of ['\\ud800', '\\udc00', 'a\\u0000b', '\\ufffe']) {
      const body = `{"type":"${type}","data":{"object":{"text":"${text}"}}}`;
      statuses.push((await leat.send('POST', '/api/v2/events', body)).status);
    }
    assert.ok(
      statuses.every((status) => status === 202 || status === 400),
      statuses.join(),
    );
    const accepted = statuses.filter((status) => status === 202).length;
    await publishAll(leat, [{ type, data: {} }]);
    await waitForStats(leat, own.id, { delivered: accepted + 1 });
  });

  test('a byte order mark is refused or skipped', async () => {
    const body = `\uFEFF${JSON.stringify(streamBody(endpoint.url))}`;
    const { status } = await leat.send('POST', '/api/v2/event-streams', body);
    assert.ok(status === 400 || status === 201);
  });
});
