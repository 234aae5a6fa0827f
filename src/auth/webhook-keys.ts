import type { Clock } from '../core/clock.ts';
import type { WebhookKey, WebhookKeys } from '../core/sign.ts';
import type { KeyStore } from '../store/port/keys.ts';
import { type Ed25519Jwk, webhookKeys } from './key-use.ts';
import { createFirstKey, type Keyring } from './keys.ts';

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
    return created;
  };
  return {
    keyOf: (tenant) => {
      const found = keyring.findSigner(tenant, clock.now());
      if (!(found instanceof Promise)) return found ?? create(tenant);
      return found.then((read) => read ?? create(tenant));
    },
  };
}
