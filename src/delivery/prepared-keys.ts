import type { WebhookKey, WebhookKeys } from '../core/sign.ts';
import type { DeliveryReport } from './report.ts';
import type { StoreRetry } from './store-retry.ts';

/**
 * The keys of tenants with streams that are signed as `v1a`. An attempt begins once the key is
 * there, so that an outage of the store takes neither a slot nor the time of the attempt.
 */
export interface PreparedKeys {
  /** Returns true when the key of a tenant is fresh; otherwise a promise that resolves then. */
  prepare(tenant: number): true | Promise<void>;
  /** Returns whether no read of the tenant's key is under way; starts none. */
  isReady(tenant: number): boolean;
  /** Returns the key of the last {@link prepare}; throws without one. */
  keyOf(tenant: number): WebhookKey;
}

export interface PreparedKeysDeps {
  readonly webhookKeys: WebhookKeys;
  readonly storeRetry: Pick<StoreRetry, 'run'>;
  readonly report: (event: DeliveryReport) => void;
}

/** See {@link PreparedKeys}. */
export function createPreparedKeys(deps: PreparedKeysDeps): PreparedKeys {
  const { webhookKeys, storeRetry, report } = deps;
  const prepared = new Map<number, WebhookKey>();
  const reading = new Map<number, Promise<void>>();

  const read = async (tenant: number, begun: Promise<WebhookKey>): Promise<void> => {
    let first: Promise<WebhookKey> | undefined = begun;
    const command = async (): Promise<WebhookKey> => {
      const pending = first ?? webhookKeys.keyOf(tenant);
      first = undefined;
      return pending;
    };
    try {
      prepared.set(tenant, await storeRetry.run(command));
    } catch (error) {
      report({ kind: 'unexpected', error });
    } finally {
      reading.delete(tenant);
    }
  };

  return {
    prepare: (tenant) => {
      const underWay = reading.get(tenant);
      if (underWay !== undefined) return underWay;
      const key = webhookKeys.keyOf(tenant);
      if (key instanceof Promise) {
        const ended = read(tenant, key);
        reading.set(tenant, ended);
        return ended;
      }
      prepared.set(tenant, key);
      return true;
    },
    isReady: (tenant) => !reading.has(tenant),
    keyOf: (tenant) => {
      const key = prepared.get(tenant);
      if (key === undefined) throw new Error(`the webhook key of tenant ${tenant} was not read`);
      return key;
    },
  };
}
