// Verifies a webhook of Leat. Exit code 0: genuine, 1: refused. Node 20 or newer, nothing to install.
//
//   WEBHOOK_SECRET=whsec_…            node verify.mjs v1  ID TIMESTAMP SIGNATURE        < body
//   WEBHOOK_KEYS=https://…/keys.json  node verify.mjs v1a ID TIMESTAMP SIGNATURE KEY_ID < body
import { createHmac, createPublicKey, timingSafeEqual, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** The headers webhook-id, webhook-timestamp, webhook-signature and webhook-key-id; the received bytes. */
export function verifyV1(secret, { id, timestamp, signature, body }) {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const expected = createHmac('sha256', key)
    .update(content(id, timestamp, body))
    .digest();
  return (
    isRecent(timestamp) &&
    signatures(signature, 'v1').some(
      (one) => one.length === expected.length && timingSafeEqual(one, expected),
    )
  );
}

/** `keys` are those of the key set; see docs/receivers.md for how long to keep them. */
export function verifyV1a(keys, { id, timestamp, signature, keyId, body }) {
  const jwk = keys.find((one) => one.kid === keyId && one.crv === 'Ed25519');
  if (jwk === undefined || !isRecent(timestamp)) return false;
  const key = createPublicKey({ key: jwk, format: 'jwk' });
  const text = content(id, timestamp, body);
  return signatures(signature, 'v1a').some((one) => verify(null, text, key, one));
}

function content(id, timestamp, body) {
  return Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
}

/** The header has several signatures during a rotation, and of several schemes. */
function signatures(header, scheme) {
  const values = header.split(' ').filter((value) => value.startsWith(`${scheme},`));
  return values.map((value) => Buffer.from(value.slice(scheme.length + 1), 'base64'));
}

function isRecent(timestamp) {
  return /^[0-9]{1,12}$/.test(timestamp) && Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300;
}

const [scheme, id, timestamp, signature, keyId] = process.argv.slice(2);
const received = { id, timestamp, signature, keyId, body: readFileSync(0) };
const { WEBHOOK_SECRET: secret, WEBHOOK_KEYS: url } = process.env;
const genuine =
  scheme === 'v1a'
    ? verifyV1a((await (await fetch(url)).json()).keys, received)
    : verifyV1(secret, received);
console.log(genuine ? 'genuine' : 'refused');
process.exitCode = genuine ? 0 : 1;
