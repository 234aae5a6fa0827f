import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import type { RandomBytes } from './clock.ts';

/**
 * The value of `webhook-signature` (Standard Webhooks, Signature scheme): one
 * `v1,<base64 HMAC-SHA256>` over `<id>.<seconds>.<body>` for each secret, a space between.
 *
 * @param secrets newest first; `whsec_…`, or for speed what {@link decodeSecret} made of it
 * @param timestampSeconds epoch seconds of this attempt, as sent in `webhook-timestamp`
 * @param body as sent
 */
export function sign(
  secrets: readonly (string | Uint8Array)[],
  id: string,
  timestampSeconds: number,
  body: string,
): string {
  const content = `${id}.${timestampSeconds}.${body}`;
  let value = '';
  for (const secret of secrets) {
    const key = typeof secret === 'string' ? decodeSecret(secret) : secret;
    const signature = createHmac('sha256', key).update(content).digest('base64');
    value += value === '' ? `v1,${signature}` : ` v1,${signature}`;
  }
  return value;
}

/** The key in a secret. Asserts the form: secrets are made by {@link makeSecret} alone. */
export function decodeSecret(secret: string): Uint8Array {
  const key = Buffer.from(secret.slice(prefix.length), 'base64');
  // The decoder skips what it does not know; only a text that comes out the same was base64. The
  // message leaves the value out: it is a secret.
  assert(
    secret === prefix + key.toString('base64') && key.length === keyBytes,
    'a signing secret is not whsec_ and the base64 of 32 bytes',
  );
  return key;
}

/** A fresh signing secret: `whsec_` and the base64 of 32 bytes. */
export function makeSecret(random: RandomBytes): string {
  return prefix + Buffer.from(random(keyBytes)).toString('base64');
}

const prefix = 'whsec_';
const keyBytes = 32;
