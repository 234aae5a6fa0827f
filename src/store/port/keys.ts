import type { Millis } from '../../core/clock.ts';
import type { SigningKey } from '../../core/types.ts';

export interface KeyStore {
  /** Newest first, expired ones left out. */
  list(tenant: number, now: Millis): Promise<SigningKey[]>;
  /** Adds a key and gives those before it the instant from which they are no longer published. */
  add(key: Omit<SigningKey, 'expiresAt'>, formerExpiresAt: Millis): Promise<void>;
  /** Lets a key sign from `now` on. False when there is none. */
  promote(tenant: number, kid: string, now: Millis): Promise<boolean>;
  /** Removes a key at once. False when there is none. */
  revoke(tenant: number, kid: string): Promise<boolean>;
}
