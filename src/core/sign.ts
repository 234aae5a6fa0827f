import { createHmac } from 'node:crypto';
import type { RandomBytes } from './clock.ts';

const PREFIX = 'whsec_';
const KEY_BYTES = 32;

/** A new signing secret: `whsec_` and the base64 of 32 bytes (Standard Webhooks, Signing secret). */
export function makeSecret(random: RandomBytes): string {
  return PREFIX + Buffer.from(random(KEY_BYTES)).toString('base64');
}

/** The key bytes of a secret, decoded once by whoever signs often. */
export function decodeSecret(secret: string): Uint8Array {
  return Buffer.from(secret.slice(PREFIX.length), 'base64');
}

/**
 * The value of `webhook-signature`: `v1,<base64 HMAC-SHA256>` over `<id>.<seconds>.<body>`, one per
 * key in the given order (newest first), with a space between (Standard Webhooks, Signature scheme).
 */
export function sign(
  keys: readonly Uint8Array[],
  id: string,
  timestampSeconds: number,
  body: string,
): string {
  const signed = `${id}.${timestampSeconds}.${body}`;
  return keys
    .map((key) => `v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
    .join(' ');
}
