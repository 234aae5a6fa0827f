import type { Millis } from '../../core/clock.ts';
import type { SigningKey } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { KeyStore } from '../port/keys.ts';
import { reportOnce, unlessBroken } from '../rows/broken.ts';
import type { Seal } from '../seal.ts';
import { type Place, placeIn } from '../sealed-columns.ts';
import { type Command, type Commands, Lock, sql } from './command.ts';
import { openAll, sealerOf, sealingRow } from './sealing.ts';

export interface KeyStoreDeps {
  readonly commands: Commands;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  /** Receives each key that does not open, once. */
  readonly report: (error: unknown) => void;
}

/** Creates the store of the keys that sign access tokens. It seals the private parts at rest. */
export function createKeyStore({ commands, seal, hint, report }: KeyStoreDeps): KeyStore {
  const { read, transact } = commands;
  const opening = { commands, seal, report: reportOnce(report) };
  return {
    list: async (tenant, now) => {
      const rows = await read(list(tenant, now));
      // The other keys sign and verify; without any, a start or a rotation adds one.
      const keys = await openAll(opening, (broken) =>
        rows.map((row) => {
          const consequence = `Signing key ${row.kid} of tenant ${tenant} is not used`;
          return unlessBroken(consequence, broken, () => keyOf(seal, tenant, row));
        }),
      );
      return keys.filter((key) => key !== undefined);
    },
    add: async (key, formerExpiresAt) => {
      await transact('durable', () => add(seal, key, formerExpiresAt));
      hint({ kind: 'keys', tenant: key.tenant });
    },
    promote: async (tenant, kid, now) => {
      const isPromoted = await transact('confirmed', () => promote(tenant, kid, now));
      if (isPromoted) hint({ kind: 'keys', tenant });
      return isPromoted;
    },
    revoke: async (tenant, kid) => {
      const isRevoked = await transact('confirmed', () => revoke(tenant, kid));
      if (isRevoked) hint({ kind: 'keys', tenant });
      return isRevoked;
    },
  };
}

interface KeyRow {
  readonly kid: string;
  readonly private_jwk: Uint8Array;
  readonly created_at: Millis;
  readonly signs_from: Millis;
  readonly expires_at: Millis | null;
}

/** Returns a key as the port has it. */
function keyOf(seal: Seal, tenant: number, row: KeyRow): SigningKey {
  return {
    tenant,
    kid: row.kid,
    privateJwk: seal.open(row.private_jwk, placeOfKey(tenant, row.kid)),
    createdAt: row.created_at,
    signsFrom: row.signs_from,
    expiresAt: row.expires_at ?? undefined,
  };
}

function placeOfKey(tenant: number, kid: string): Place {
  return placeIn('signing_keys', { tenant, row: kid }, 'private_jwk');
}

function* list(tenant: number, now: Millis): Command<KeyRow[]> {
  return yield* sql.all<KeyRow>`
    select kid, private_jwk, created_at, signs_from, expires_at from signing_keys
    where tenant = ${tenant} and (expires_at is null or expires_at > ${now})
    order by number desc`;
}

/**
 * A key that no longer signs keeps the end that an earlier rotation gave it. The key that signs now
 * may do so until the new one does, in case those between them are revoked.
 */
function* add(
  seal: Seal,
  key: Omit<SigningKey, 'expiresAt'>,
  formerExpiresAt: Millis,
): Command<boolean> {
  const { tenant, kid, privateJwk, createdAt, signsFrom } = key;
  yield* lockKeys(tenant);
  yield* sql.run`delete from signing_keys where tenant = ${tenant} and expires_at <= ${createdAt}`;
  yield* sql.run`
    update signing_keys set expires_at =
      case when expires_at > ${formerExpiresAt} then expires_at else ${formerExpiresAt} end
    where tenant = ${tenant} and (expires_at is null or number = (
      select max(number) from signing_keys
      where tenant = ${tenant} and signs_from <= ${createdAt}))`;
  const sealer = sealerOf(seal, yield* sealingRow());
  const sealed = sealer(privateJwk, placeOfKey(tenant, kid));
  yield* sql.run`
    insert into signing_keys (tenant, kid, private_jwk, created_at, signs_from)
    values (${tenant}, ${kid}, ${sealed}, ${createdAt}, ${signsFrom})`;
  return true;
}

/** A key that is the newest again, because newer ones were revoked, no longer has an end. */
function* promote(tenant: number, kid: string, now: Millis): Command<boolean> {
  yield* lockKeys(tenant);
  const promoted = yield* sql.run`
    update signing_keys set
      signs_from = ${now},
      expires_at = case when exists (
        select 1 from signing_keys newer
        where newer.tenant = signing_keys.tenant and newer.number > signing_keys.number
      ) then expires_at end
    where tenant = ${tenant} and kid = ${kid} and (expires_at is null or expires_at > ${now})`;
  return promoted === 1;
}

function* revoke(tenant: number, kid: string): Command<boolean> {
  yield* lockKeys(tenant);
  const revoked = yield* sql.run`
    delete from signing_keys where tenant = ${tenant} and kid = ${kid}`;
  return revoked === 1;
}

/** The end of a key depends on keys that may not exist yet, so locks of rows are not enough. */
function lockKeys(tenant: number): Lock {
  return new Lock(`keys ${tenant}`);
}
