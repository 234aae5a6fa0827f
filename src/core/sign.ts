import assert from 'node:assert/strict';
import { createHmac, timingSafeEqual } from 'node:crypto';
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

/** The headers that say who sent a webhook and when. */
export interface SignatureHeaders {
  /** `webhook-id` */
  readonly id: string | undefined;
  /** `webhook-timestamp` */
  readonly timestamp: string | undefined;
  /** `webhook-signature` */
  readonly signature: string | undefined;
}

/** What a receiver finds; only `valid` is to be believed. */
export type SignatureCheck = 'valid' | 'missing' | 'wrong' | 'too old' | 'too new';

const toleranceSeconds = 300;

/**
 * Judges the signature of a webhook that arrived (Standard Webhooks, Verifying signatures): one of
 * its values must be that of the secret, and its timestamp at most 5 minutes away from `nowSeconds`.
 * Takes the same time for every wrong signature.
 *
 * @param secret `whsec_…` as the sender shows it
 * @param body as received, not a byte changed
 */
export function verify(
  secret: string,
  { id, timestamp, signature }: SignatureHeaders,
  body: Uint8Array,
  nowSeconds: number,
): SignatureCheck {
  if (id === undefined || timestamp === undefined || signature === undefined) return 'missing';
  const expected = createHmac('sha256', decodeSecret(secret))
    .update(`${id}.${timestamp}.`)
    .update(body)
    .digest();
  const values = signature.split(' ').filter((value) => value.startsWith('v1,'));
  const matches = values.filter((value) => {
    const given = Buffer.from(value.slice('v1,'.length), 'base64');
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (matches.length === 0 || !/^[0-9]{1,12}$/.test(timestamp)) return 'wrong';
  const aheadSeconds = Number(timestamp) - nowSeconds;
  if (aheadSeconds < -toleranceSeconds) return 'too old';
  return aheadSeconds > toleranceSeconds ? 'too new' : 'valid';
}

/** Whether a text is a signing secret: `whsec_` and the base64 of 32 bytes. */
export function isSecret(text: string): boolean {
  const key = Buffer.from(text.slice(prefix.length), 'base64');
  // The decoder skips what it does not know; only a text that comes out the same was base64.
  return text === prefix + key.toString('base64') && key.length === keyBytes;
}

/** The key in a secret. Asserts the form: secrets are made by {@link makeSecret} alone. */
export function decodeSecret(secret: string): Uint8Array {
  // The message leaves the value out: it is a secret.
  assert(isSecret(secret), 'a signing secret is not whsec_ and the base64 of 32 bytes');
  return Buffer.from(secret.slice(prefix.length), 'base64');
}

/** A fresh signing secret: `whsec_` and the base64 of 32 bytes. */
export function makeSecret(random: RandomBytes): string {
  return prefix + Buffer.from(random(keyBytes)).toString('base64');
}

const prefix = 'whsec_';
const keyBytes = 32;
