import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { authority, expired, ofAnotherHost, trusted } from '../helpers/certificates.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
before(async () => {
  fixture = await openFixture();
});
after(() => fixture.close());

/** Opens a fixture at a time when the certificates of tests are valid. */
async function openFixture(
  settings: Parameters<typeof openApiFixture>[0] = {},
): Promise<ApiFixture> {
  const opened = await openApiFixture(settings);
  opened.auth.clock.move(Date.UTC(2027, 0, 1) - opened.auth.clock.now());
  const headers = { authorization: `Bearer ${await opened.auth.token()}` };
  return { ...opened, send: (method, path, body) => opened.send(method, path, body, headers) };
}

type Sent = Readonly<Record<string, unknown>> | null | undefined;

const pair = { certificate: trusted.cert, private_key: trusted.key };
const shown = { certificate: trusted.cert, expires_at: '2126-10-28T03:09:38.000Z' };
const endpoint = 'https://hooks.example.net/';

function destination(certificate: Sent, url = endpoint, token?: string) {
  return {
    type: 'webhook',
    configuration: {
      webhook_endpoint: url,
      webhook_authorization: { method: 'bearer', ...(token === undefined ? {} : { token }) },
      ...(certificate === undefined ? {} : { client_certificate: certificate }),
    },
  };
}

function create(certificate: Sent, url = endpoint) {
  return fixture.send('POST', '/event-streams', {
    destination: destination(certificate, url, 't'),
  });
}

const certificateOf = (body: ReturnType<typeof destination>) =>
  body.configuration.client_certificate;

test('a client certificate is returned with its expiry and without its key', async () => {
  const made = await create(pair);
  assert.equal(made.status, 201, made.text);
  assert.deepEqual(certificateOf(made.body.destination), shown);
  const read = await fixture.send('GET', `/event-streams/${made.body.id}`);
  assert.deepEqual(certificateOf(read.body.destination), shown);
  const stored = await fixture.auth.store.streams.get(1, made.body.id);
  assert.equal(stored?.destination.clientCertificate?.privateKey, trusted.key);
  assert.equal(certificateOf((await create(null)).body.destination), undefined);
});

test('a chain, texts around the blocks and other line ends are accepted', async () => {
  const chain = `Bag Attributes\n${trusted.cert}\nsubject=CN\n${authority}`;
  const sent = { certificate: chain.replaceAll('\n', '\r\n'), private_key: `\n${trusted.key}\n\n` };
  const made = await create(sent);
  assert.equal(made.status, 201, made.text);
  assert.equal(
    certificateOf(made.body.destination)?.['certificate'],
    `${trusted.cert}${authority}`,
  );
});

test('keys in the older forms of PEM are accepted', async () => {
  const key = createPrivateKey(trusted.key).export({ type: 'sec1', format: 'pem' });
  const parameters =
    '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n';
  const made = await create({ ...pair, private_key: parameters + key });
  assert.equal(made.status, 201, made.text);
});

describe('a certificate that cannot be used', () => {
  const key = createPrivateKey(trusted.key);
  const cipher = { cipher: 'aes-256-cbc', passphrase: 'p', format: 'pem' } as const;
  // To generate one takes seconds.
  const rsa = readFileSync(new URL('rsa-5120.pem', import.meta.url), 'utf8');
  const cases: readonly (readonly [string, object, RegExp, 'certificate' | 'private_key'])[] = [
    ['another key', { private_key: ofAnotherHost.key }, /does not belong/, 'private_key'],
    [
      'an encrypted key',
      { private_key: key.export({ type: 'pkcs8', ...cipher }) },
      /encrypted: decrypt it first, as with openssl pkey/,
      'private_key',
    ],
    [
      'an encrypted key in the older form',
      { private_key: key.export({ type: 'sec1', ...cipher }) },
      /encrypted: decrypt it first/,
      'private_key',
    ],
    ['a huge key', { private_key: rsa }, /5120 bits: use one of/, 'private_key'],
    ['junk as key', { private_key: 'key' }, /No PEM found/, 'private_key'],
    [
      'a certificate as key',
      { private_key: trusted.cert },
      /The block is CERTIFICATE instead of PRIVATE KEY/,
      'private_key',
    ],
    [
      'a damaged key',
      { private_key: trusted.key.replace(/MIG/, 'AAA') },
      /The key cannot be read/,
      'private_key',
    ],
    ['two keys', { private_key: trusted.key + trusted.key }, /send the key alone/, 'private_key'],
    ['no PEM', { certificate: 'certificate' }, /No PEM found/, 'certificate'],
    [
      'a damaged certificate',
      { certificate: trusted.cert.replace(/MIIB/, 'AAAA') },
      /Certificate 1 cannot be read/,
      'certificate',
    ],
    [
      'its key in the certificate',
      { certificate: trusted.cert + trusted.key },
      /would be returned with it: send that as private_key/,
      'certificate',
    ],
    [
      'the chain in wrong order',
      { certificate: authority + trusted.cert },
      /The key belongs to certificate 2: put that one first/,
      'certificate',
    ],
    [
      'a certificate in the chain that issued none',
      { certificate: trusted.cert + ofAnotherHost.cert + authority },
      /Certificate 2 did not issue certificate 1/,
      'certificate',
    ],
    ['a long chain', { certificate: trusted.cert.repeat(6) }, /More than 5/, 'certificate'],
    [
      'an expired certificate',
      { certificate: expired.cert, private_key: expired.key },
      /Certificate 1 expired at 2026-11-20T03:09:38\.000Z: send a renewed one/,
      'certificate',
    ],
  ];
  for (const [name, fields, reason, field] of cases) {
    test(`${name}: 400 with what to do, and nothing of the key`, async () => {
      const response = await create({ ...pair, ...fields });
      assert.equal(response.status, 400, response.text);
      assert.match(response.body.message, reason);
      assert.ok(response.body.message.includes(`client_certificate.${field}`), response.text);
      assert.ok(!response.text.includes(trusted.key.split('\n')[1] ?? ''));
    });
  }

  test('a create without the key, and an endpoint without TLS, are 400', async (t) => {
    const response = await create({ certificate: trusted.cert });
    assert.equal(response.status, 400);
    assert.match(response.body.message, /private_key/);
    const plain = await openFixture({ allowHttpEndpoints: true });
    t.after(() => plain.close());
    const body = { destination: destination(pair, 'http://hooks.example.net/', 't') };
    const refused = await plain.send('POST', '/event-streams', body);
    assert.match(refused.body.message, /A client certificate needs an https:\/\/ endpoint/);
  });
});

describe('an update', () => {
  const patch = (id: string, certificate: Sent, url?: string) =>
    fixture.send('PATCH', `/event-streams/${id}`, {
      destination: destination(certificate, url, 't'),
    });

  test('with what was returned changes nothing', async () => {
    const { body } = await create(pair);
    for (const same of [shown, { certificate: trusted.cert }, undefined, pair]) {
      const response = await patch(body.id, same);
      assert.equal(response.status, 200, response.text);
      assert.deepEqual(response.body, body);
    }
  });

  test('with another certificate or endpoint needs the key again', async () => {
    const { body } = await create(pair);
    const missing = /Missing required property: private_key \(required because/;
    const other = await patch(body.id, { certificate: ofAnotherHost.cert });
    assert.match(other.body.message, missing);
    const moved = await patch(body.id, undefined, 'https://other.example.net/');
    assert.equal(moved.status, 400);
    assert.match(moved.body.message, missing);
    const renewed = { certificate: ofAnotherHost.cert, private_key: ofAnotherHost.key };
    const response = await patch(body.id, renewed, 'https://other.example.net/');
    assert.equal(response.status, 200, response.text);
    assert.equal(certificateOf(response.body.destination)?.['certificate'], ofAnotherHost.cert);
  });

  test('with null removes the certificate', async () => {
    const { body } = await create(pair);
    const response = await patch(body.id, null);
    assert.equal(response.status, 200, response.text);
    assert.equal(certificateOf(response.body.destination), undefined);
    const stored = await fixture.auth.store.streams.get(1, body.id);
    assert.equal(stored?.destination.clientCertificate, undefined);
  });
});
