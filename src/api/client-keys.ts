import { publicKeyError } from '../auth/public-key.ts';
import { mayVerify } from '../core/key-purpose.ts';
import { type KeySetSent, publicKey } from '../schemas/clients.ts';
import { compile } from '../schemas/schema.ts';
import { badBody } from './http/problem.ts';
import { firstViolation, type Violation } from './http/violation.ts';

/** Bytes of the keys of a client as JSON: a page of 100 clients stays below 8 MiB. */
const keySetBytesMax = 64 * 1024;

/**
 * Returns the JSON of a sent key set as it is stored: without keys that cannot verify an assertion (RFC
 * 7517 section 5) and without fields that have no effect. A set without any usable key is a problem,
 * which says why the first one is not usable.
 */
export async function usableKeys(
  sent: KeySetSent | null | undefined,
): Promise<string | null | undefined> {
  if (sent === null || sent === undefined) return sent;
  const keys: object[] = [];
  let first: Violation | undefined;
  for (const [index, key] of sent.keys.entries()) {
    const at = `jwks.keys.${index}`;
    refuseSecret(key, at);
    const known = knownFields(key);
    const fault = await faultOf(known, at);
    if (fault === undefined) keys.push(known);
    else first ??= fault;
  }
  if (keys.length === 0 && first !== undefined) {
    throw badBody(first.reason, first.property, first.description);
  }
  const text = JSON.stringify({ keys });
  if (Buffer.byteLength(text) > keySetBytesMax) {
    throw badBody(`Keys are too long, maximum ${keySetBytesMax} bytes`, 'jwks', 'Public keys');
  }
  return text;
}

/** RFC 7518 sections 6.2.2, 6.3.2 and 6.4: the fields of private and of symmetric keys. */
const secretFields = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];
const publicFields = ['kty', 'n', 'e', 'crv', 'x', 'y', 'alg', 'kid', 'use', 'key_ops', 'ext'];

function refuseSecret(key: object, at: string): void {
  const secret = secretFields.find((field) => Object.hasOwn(key, field));
  if (secret === undefined) return;
  throw badBody('A private key must stay with the client', `${at}.${secret}`, 'A public key');
}

/** Returns the fields that have an effect. Of operations, that is `verify`: others make no import of a public key. */
function knownFields(key: object): object {
  const known = Object.entries(key).filter(([field]) => publicFields.includes(field));
  const purpose = Object.hasOwn(key, 'key_ops') && mayVerify(key) ? { key_ops: ['verify'] } : {};
  return { ...Object.fromEntries(known), ...purpose };
}

const fits = compile(publicKey);

async function faultOf(key: object, at: string): Promise<Violation | undefined> {
  const description = 'A public key';
  if (!fits(key)) {
    return firstViolation(publicKey, key, at) ?? { reason: 'Not valid', property: at, description };
  }
  const reason = await publicKeyError(key);
  return reason === undefined ? undefined : { reason, property: at, description };
}
