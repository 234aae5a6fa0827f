import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  expectBody,
  freshType,
  publish,
  type StreamBody,
  waitForError,
  waitForStats,
} from '../helpers/api-client.ts';
import { authority, trusted } from '../helpers/certificates.ts';
import { createTempStore, type Running, startLeat, type TempStore } from '../helpers/leat.ts';
import { type Receiver, startReceiver } from '../helpers/receiver.ts';

/** A receiver that accepts no connection without a certificate of its authority. */

let tempStore: TempStore;
let leat: Running;
let receiver: Receiver;

before(async () => {
  tempStore = await createTempStore();
  const tls = { ...trusted, ca: authority, requestCert: true, rejectUnauthorized: true };
  receiver = await startReceiver({ tls });
  const caFile = join(tempStore.folder, 'ca.pem');
  await writeFile(caFile, authority);
  leat = await startLeat(tempStore, {
    NODE_EXTRA_CA_CERTS: caFile,
    LEAT_RETRY_DELAYS_MS: '10',
    LEAT_LOG_LEVEL: 'debug',
  });
});
after(async () => {
  await receiver.close();
  await leat.kill();
  await tempStore.remove();
});

function destination(certificate: object | null | undefined): object {
  return {
    type: 'webhook',
    configuration: {
      webhook_endpoint: `${receiver.origin}/hook`,
      webhook_authorization: { method: 'bearer', token: 'token' },
      ...(certificate === undefined ? {} : { client_certificate: certificate }),
    },
  };
}

function create(type: string, certificate?: object): Promise<StreamBody> {
  const body = { subscriptions: [{ event_type: type }], destination: destination(certificate) };
  return expectBody(201, leat.send('POST', '/api/v2/event-streams', body));
}

test(
  'only streams with the certificate reach the receiver, and the key is shown nowhere',
  { tags: ['long'] },
  async () => {
    const type = freshType();
    const pair = { certificate: trusted.cert, private_key: trusted.key };
    const bare = await create(type);
    const stream = await create(type, pair);
    const id = await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 1 });
    assert.match(await waitForError(leat, bare.id), /^(tls|reset): /);
    const ids = receiver.requests.map(({ headers }) => headers['webhook-id']);
    assert.deepEqual(ids, [id]);

    // The connection of the certificate is idle still.
    const path = `/api/v2/event-streams/${stream.id}`;
    const change = { destination: destination(null) };
    const changed = await expectBody<object>(200, leat.send('PATCH', path, change));
    assert.doesNotMatch(JSON.stringify(changed), /client_certificate/);
    await publish(leat, type);
    assert.match(await waitForError(leat, stream.id), /^(tls|reset): /);
    assert.equal(receiver.requests.length, 1);

    await expectBody(200, leat.send('PATCH', path, { destination: destination(pair) }));
    const texts = [leat.output()];
    for (const shown of [path, `${path}/deliveries`, '/api/v2/logs', '/api/v2/event-streams']) {
      const response = await leat.send('GET', shown);
      assert.equal(response.status, 200, shown);
      texts.push(await response.text());
    }
    const all = texts.join('\n');
    assert.ok(all.includes('client_certificate'));
    for (const line of trusted.key.split('\n').filter((each) => /^[\w+/=]{20,}$/.test(each))) {
      assert.ok(!all.includes(line), line);
    }
  },
);
