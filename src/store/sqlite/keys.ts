import type { Millis } from '../../core/clock.ts';
import type { SigningKey } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { KeyStore } from '../port/keys.ts';
import type { Seal } from '../seal.ts';
import type { Database } from './database.ts';
import { keyOf, type KeyRow } from '../rows/keys.ts';

export interface KeyDeps {
  readonly db: Database;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
}

/** The keys that sign access tokens; the private part is sealed while at rest. */
export function createKeyStore({ db, seal, hint }: KeyDeps): KeyStore {
  return {
    list: async (tenant, now) => list(db, tenant, now).map((row) => keyOf(seal, tenant, row)),
    add: async (key, formerExpiresAt) => {
      db.transact('durable', () => add(db, seal, key, formerExpiresAt));
      hint({ kind: 'keys', tenant: key.tenant });
    },
    promote: async (tenant, kid, now) => {
      const promoted = db.transact('durable', () => promote(db, tenant, kid, now));
      if (promoted) hint({ kind: 'keys', tenant });
      return promoted;
    },
    revoke: async (tenant, kid) => {
      const revoked = db.transact('durable', () => revoke(db, tenant, kid));
      if (revoked) hint({ kind: 'keys', tenant });
      return revoked;
    },
  };
}

function list(db: Database, tenant: number, now: Millis): KeyRow[] {
  return db.all<KeyRow>`
    select kid, private_jwk, created_at, signs_from, expires_at from signing_keys
    where tenant = ${tenant} and (expires_at is null or expires_at > ${now})
    order by number desc`;
}

/**
 * A key that signs no more keeps the end that an earlier rotation gave it. The one that signs now
 * may do so until the new one does, should those between them be revoked.
 */
function add(
  db: Database,
  seal: Seal,
  key: Omit<SigningKey, 'expiresAt'>,
  formerExpiresAt: Millis,
): void {
  const { tenant, kid, privateJwk, createdAt, signsFrom } = key;
  db.run`delete from signing_keys where tenant = ${tenant} and expires_at <= ${createdAt}`;
  db.run`
    update signing_keys set expires_at = max(coalesce(expires_at, 0), ${formerExpiresAt})
    where tenant = ${tenant} and (expires_at is null or number = (
      select max(number) from signing_keys
      where tenant = ${tenant} and signs_from <= ${createdAt}))`;
  db.run`
    insert into signing_keys (tenant, kid, private_jwk, created_at, signs_from)
    values (${tenant}, ${kid}, ${seal.seal(privateJwk)}, ${createdAt}, ${signsFrom})`;
}

/** A key that is the newest again, because newer ones were revoked, has no end any more. */
function promote(db: Database, tenant: number, kid: string, now: Millis): boolean {
  const promoted = db.run`
    update signing_keys set
      signs_from = ${now},
      expires_at = case when exists (
        select 1 from signing_keys newer
        where newer.tenant = signing_keys.tenant and newer.number > signing_keys.number
      ) then expires_at end
    where tenant = ${tenant} and kid = ${kid} and (expires_at is null or expires_at > ${now})`;
  return promoted === 1;
}

function revoke(db: Database, tenant: number, kid: string): boolean {
  return db.run`delete from signing_keys where tenant = ${tenant} and kid = ${kid}` === 1;
}
