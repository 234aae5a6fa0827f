import type { Millis } from '../../core/clock.ts';
import type { SigningKey } from '../../core/types.ts';

/** The keys of one use: of access tokens, or of webhooks. */
export interface KeyStore {
  /** Returns the keys, newest first, without expired ones and without those that do not open. */
  list(tenant: number, now: Millis): Promise<SigningKey[]>;
  /** Adds a key, and sets the instant from which the earlier ones are no longer published. */
  add(key: Omit<SigningKey, 'expiresAt'>, formerExpiresAt: Millis): Promise<'added'>;
  /** Adds a key unless the tenant has one that opens. */
  addFirst(key: Omit<SigningKey, 'expiresAt'>): Promise<'added' | 'present'>;
  /** Makes a key sign from `now` on. Returns false when there is none. */
  promote(tenant: number, kid: string, now: Millis): Promise<boolean>;
  /** Removes a key at once. Returns false when there is none. */
  revoke(tenant: number, kid: string): Promise<boolean>;
}
