import type { Millis } from '../../core/clock.ts';
import type { SigningKey } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { KeyStore } from '../port/keys.ts';
import type { Seal } from '../seal.ts';
import type { Database, Queries } from './database.ts';
import { advisoryLock } from './advisory-lock.ts';
import { keyOf, type KeyRow } from '../rows/keys.ts';

export interface KeyDeps {
  readonly db: Database;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
}

/** The keys that sign access tokens; the private part is sealed while at rest. */
export function createKeyStore({ db, seal, hint }: KeyDeps): KeyStore {
  return {
    list: async (tenant, now) =>
      (await list(db, tenant, now)).map((row) => keyOf(seal, tenant, row)),
    add: async (key, formerExpiresAt) => {
      await db.transact('durable', (tx) => add(tx, seal, key, formerExpiresAt));
      hint({ kind: 'keys', tenant: key.tenant });
    },
    promote: async (tenant, kid, now) => {
      const promoted = await db.transact('confirmed', (tx) => promote(tx, tenant, kid, now));
      if (promoted) hint({ kind: 'keys', tenant });
      return promoted;
    },
    revoke: async (tenant, kid) => {
      const revoked = await db.transact('confirmed', (tx) => revoke(tx, tenant, kid));
      if (revoked) hint({ kind: 'keys', tenant });
      return revoked;
    },
  };
}

function list(db: Queries, tenant: number, now: Millis): Promise<KeyRow[]> {
  return db.all<KeyRow>`
    select kid, private_jwk, created_at, signs_from, expires_at from signing_keys
    where tenant = ${tenant} and (expires_at is null or expires_at > ${now})
    order by number desc`;
}

/**
 * A key that signs no more keeps the end that an earlier rotation gave it. The one that signs now
 * may do so until the new one does, should those between them be revoked.
 */
async function add(
  tx: Queries,
  seal: Seal,
  key: Omit<SigningKey, 'expiresAt'>,
  formerExpiresAt: Millis,
): Promise<void> {
  const { tenant, kid, privateJwk, createdAt, signsFrom } = key;
  await lockKeys(tx, tenant);
  await tx.run`delete from signing_keys where tenant = ${tenant} and expires_at <= ${createdAt}`;
  await tx.run`
    update signing_keys set expires_at = greatest(coalesce(expires_at, 0), ${formerExpiresAt})
    where tenant = ${tenant} and (expires_at is null or number = (
      select max(number) from signing_keys
      where tenant = ${tenant} and signs_from <= ${createdAt}))`;
  await tx.run`
    insert into signing_keys (tenant, kid, private_jwk, created_at, signs_from)
    values (${tenant}, ${kid}, ${seal.seal(privateJwk)}, ${createdAt}, ${signsFrom})`;
}

/** A key that is the newest again, because newer ones were revoked, has no end any more. */
async function promote(tx: Queries, tenant: number, kid: string, now: Millis): Promise<boolean> {
  await lockKeys(tx, tenant);
  const promoted = await tx.run`
    update signing_keys set
      signs_from = ${now},
      expires_at = case when exists (
        select 1 from signing_keys newer
        where newer.tenant = signing_keys.tenant and newer.number > signing_keys.number
      ) then expires_at end
    where tenant = ${tenant} and kid = ${kid} and (expires_at is null or expires_at > ${now})`;
  return promoted === 1;
}

async function revoke(tx: Queries, tenant: number, kid: string): Promise<boolean> {
  await lockKeys(tx, tenant);
  return (await tx.run`delete from signing_keys where tenant = ${tenant} and kid = ${kid}`) === 1;
}

/** What a key's end becomes depends on the keys that are not there too, so no row can be locked. */
async function lockKeys(tx: Queries, tenant: number): Promise<void> {
  await advisoryLock(tx, `keys ${tenant}`);
}
