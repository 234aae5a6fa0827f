import assert from 'node:assert/strict';
import { createHmac, type KeyObject, sign as signBytes } from 'node:crypto';
import type { RandomBytes } from './clock.ts';
import { ownBytes, type OwnBytes } from './own-bytes.ts';

/**
 * Returns the value of `webhook-signature` (Standard Webhooks, Signature scheme): for each secret one
 * `v1,<base64 HMAC-SHA256>` over `<id>.<seconds>.<body>`, separated by spaces.
 *
 * @param secrets newest first; `whsec_…`, or for speed the result of {@link decodeSecret}
 * @param timestampSeconds epoch seconds of this attempt, as sent in `webhook-timestamp`
 * @param body as sent
 */
export function sign(
  secrets: readonly (string | Uint8Array)[],
  id: string,
  timestampSeconds: number,
  body: string,
): string {
  const content = signedText(id, timestampSeconds, body);
  let value = '';
  for (const secret of secrets) {
    const key = typeof secret === 'string' ? decodeSecret(secret) : secret;
    const signature = createHmac('sha256', key).update(content).digest('base64');
    value += value === '' ? `v1,${signature}` : ` v1,${signature}`;
  }
  return value;
}

/** Returns the text that every scheme signs: `<id>.<seconds>.<body>`. */
export function signedText(id: string, timestampSeconds: number, body: string): string {
  return `${id}.${timestampSeconds}.${body}`;
}

/** An Ed25519 key of a tenant, for the scheme `v1a`. */
export interface WebhookKey {
  /** Sent as `webhook-key-id`. */
  readonly kid: string;
  /** The private key. */
  readonly key: KeyObject;
}

/**
 * Resolves to the signature of a text, in base64. It is made on a thread of the pool: an Ed25519
 * signature takes ten times as long as an HMAC.
 */
export function signWithKey({ key }: WebhookKey, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    signBytes(null, Buffer.from(text), key, (error, signature) => {
      if (error === null) resolve(signature.toString('base64'));
      else reject(error);
    });
  });
}

/** The keys that sign the webhooks of tenants as `v1a`. */
export interface WebhookKeys {
  /**
   * Returns the key that signs for a tenant now; a promise where it has to be read. Creates the
   * first key of a tenant.
   */
  keyOf(tenant: number): WebhookKey | Promise<WebhookKey>;
}

/** Returns whether a text is a signing secret: `whsec_` and the base64 of 32 bytes. */
export function isSecret(text: string): boolean {
  const key = Buffer.from(text.slice(prefix.length), 'base64');
  // The decoder skips invalid characters; only valid base64 is encoded to the same text again.
  return text === prefix + key.toString('base64') && key.length === keyBytes;
}

/** Returns the key in a secret. Asserts the form: only {@link makeSecret} generates secrets. */
export function decodeSecret(secret: string): OwnBytes {
  // The message must not contain the value.
  assert(isSecret(secret), 'a signing secret is not whsec_ and the base64 of 32 bytes');
  return ownBytes(Buffer.from(secret.slice(prefix.length), 'base64'));
}

/** Generates a signing secret: `whsec_` and the base64 of 32 bytes. */
export function makeSecret(random: RandomBytes): string {
  return prefix + Buffer.from(random(keyBytes)).toString('base64');
}

const prefix = 'whsec_';
const keyBytes = 32;
