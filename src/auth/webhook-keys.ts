import { type KeyObject, sign } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import type { WebhookKey, WebhookKeys } from '../core/sign.ts';
import type { KeyStore } from '../store/port/keys.ts';
import { type Ed25519Jwk, webhookKeys } from './key-use.ts';
import { createFirstKey, type Keyring, type Signer } from './keys.ts';

export interface WebhookKeyDeps {
  readonly keyring: Pick<Keyring<Ed25519Jwk>, 'findSigner' | 'jwks'>;
  readonly keys: Pick<KeyStore, 'list' | 'addFirst'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** Creates the keys that sign webhooks. `keyOf` rejects with `StoreUnavailable`. */
export function createWebhookKeys({ keyring, keys, clock }: WebhookKeyDeps): WebhookKeys {
  const create = async (tenant: number): Promise<WebhookKey> => {
    await createFirstKey(keys, tenant, clock.now(), webhookKeys);
    // Reads the keys again: another node may have added the first one.
    await keyring.jwks(tenant, clock.now());
    const created = await keyring.findSigner(tenant, clock.now());
    if (created === undefined) throw new Error(`tenant ${tenant} has no key that signs webhooks`);
    return keyOf(created);
  };
  return {
    keyOf: (tenant) => {
      const found = keyring.findSigner(tenant, clock.now());
      if (!(found instanceof Promise)) return found === undefined ? create(tenant) : keyOf(found);
      return found.then((read) => (read === undefined ? create(tenant) : keyOf(read)));
    },
  };
}

function keyOf({ kid, key }: Signer): WebhookKey {
  return { kid, sign: (text) => signText(key, text) };
}

/**
 * Signs on a thread of the pool: an Ed25519 signature takes ten times as long as an HMAC, and would
 * halve the deliveries per second of the event loop.
 */
function signText(key: KeyObject, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    sign(null, Buffer.from(text), key, (error, signature) => {
      if (error === null) resolve(signature.toString('base64'));
      else reject(error);
    });
  });
}
