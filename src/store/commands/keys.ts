import type { Millis } from '../../core/clock.ts';
import type { SigningKey } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type { KeyStore } from '../port/keys.ts';
import { reportOnce, unlessBroken } from '../rows/broken.ts';
import { conversionOf } from '../rows/fields.ts';
import type { Seal } from '../seal.ts';
import { type Place, placeIn } from '../sealed-columns.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { columnsOf, valuesOf } from './columns.ts';
import { type Command, Lock, type On, sql } from './command.ts';
import { verbatim } from './dialect.ts';
import { openAll, sealerOf, sealingRow } from './sealing.ts';

export interface KeyStoreDeps extends On {
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  /** Receives each key that does not open, once. */
  readonly report: (error: unknown) => void;
}

/** The tables of keys: those that sign access tokens, and those that sign webhooks. */
export type KeyTable = 'signing_keys' | 'webhook_keys';

/** Creates the store of the keys in a table. It seals the private parts at rest. */
export function createKeyStore(
  { on, seal, hint, report }: KeyStoreDeps,
  table: KeyTable,
): KeyStore {
  const into = { seal, table };
  const { transact } = on.commands;
  // Publishers need the keys, whatever the connections of other purposes wait for.
  const opening = { commands: on.tokens, seal, report: reportOnce(report) };
  return {
    list: async (tenant, now) => {
      const rows = await on.tokens.read(list(table, tenant, now));
      // The other keys sign and verify; without any, a start or a rotation adds one.
      const keys = await openAll(opening, (broken) =>
        rows.map((row) => {
          const consequence = `${titles[table]} ${row.kid} of tenant ${tenant} is not used`;
          return unlessBroken(consequence, broken, () => keyOf(seal, table, row));
        }),
      );
      return keys.filter((key) => key !== undefined);
    },
    add: async (key, formerExpiresAt) => {
      const addition = await transact('durable', () => add(into, key, formerExpiresAt));
      hint({ kind: 'keys', tenant: key.tenant });
      return addition;
    },
    addFirst: async (key) => {
      const addition = await transact('durable', () => addFirst(into, key));
      if (addition === 'added') hint({ kind: 'keys', tenant: key.tenant });
      return addition;
    },
    promote: async (tenant, kid, now) => {
      const isPromoted = await transact('confirmed', () => promote(table, tenant, kid, now));
      if (isPromoted) hint({ kind: 'keys', tenant });
      return isPromoted;
    },
    revoke: async (tenant, kid) => {
      const isRevoked = await transact('confirmed', () => revoke(table, tenant, kid));
      if (isRevoked) hint({ kind: 'keys', tenant });
      return isRevoked;
    },
  };
}

const titles = { signing_keys: 'Signing key', webhook_keys: 'Webhook key' } as const;

type KeyRow = RowOf<(typeof tables)[KeyTable]>;

// The table of the other keys has the same columns.
const { fieldsOf } = conversionOf(tables.signing_keys, { without: ['number', 'private_jwk'] });

/** Returns a key as the port has it. */
function keyOf(seal: Seal, table: KeyTable, row: KeyRow): SigningKey {
  const privateJwk = seal.open(row.private_jwk, placeOfKey(table, row.tenant, row.kid));
  return { ...fieldsOf(row), privateJwk };
}

function placeOfKey(table: KeyTable, tenant: number, kid: string): Place {
  return placeIn(table, { tenant, row: kid }, 'private_jwk');
}

function* list(table: KeyTable, tenant: number, now: Millis): Command<KeyRow[]> {
  return yield* sql.all<KeyRow>`
    select ${columnsOf(tables[table])} from ${verbatim(table)}
    where tenant = ${tenant} and (expires_at is null or expires_at > ${now})
    order by number desc`;
}

/** Where a key is inserted. */
interface Insertion {
  readonly seal: Seal;
  readonly table: KeyTable;
}

/**
 * A key that no longer signs keeps the end that an earlier rotation gave it. The key that signs now
 * may do so until the new one does, in case those between them are revoked.
 */
function* add(
  into: Insertion,
  key: Omit<SigningKey, 'expiresAt'>,
  formerExpiresAt: Millis,
): Command<'added'> {
  const { tenant, createdAt } = key;
  const table = verbatim(into.table);
  yield* lockKeys(into.table, tenant);
  yield* sql.run`delete from ${table} where tenant = ${tenant} and expires_at <= ${createdAt}`;
  yield* sql.run`
    update ${table} set expires_at =
      case when expires_at > ${formerExpiresAt} then expires_at else ${formerExpiresAt} end
    where tenant = ${tenant} and (expires_at is null or number = (
      select max(number) from ${table}
      where tenant = ${tenant} and signs_from <= ${createdAt}))`;
  yield* insert(into, key);
  // The word records the change, see recording.ts.
  return 'added';
}

/** Of several nodes that find no key, the lock lets one add its own. */
function* addFirst(
  into: Insertion,
  key: Omit<SigningKey, 'expiresAt'>,
): Command<'added' | 'present'> {
  const { tenant, createdAt } = key;
  yield* lockKeys(into.table, tenant);
  const present = yield* list(into.table, tenant, createdAt);
  if (present.some((row) => opens(into, row))) return 'present';
  yield* insert(into, key);
  return 'added';
}

function opens({ seal, table }: Insertion, row: KeyRow): boolean {
  const key = unlessBroken(
    '',
    () => undefined,
    () => keyOf(seal, table, row),
  );
  return key !== undefined;
}

function* insert(
  { seal, table }: Insertion,
  { tenant, kid, privateJwk, createdAt, signsFrom }: Omit<SigningKey, 'expiresAt'>,
): Command<void> {
  const sealer = sealerOf(seal, yield* sealingRow());
  const sealed = sealer(privateJwk, placeOfKey(table, tenant, kid));
  const row = { tenant, kid, private_jwk: sealed, created_at: createdAt, signs_from: signsFrom };
  yield* sql.run`insert into ${verbatim(table)} ${valuesOf(tables[table], row)}`;
}

/** A key that is the newest again, because newer ones were revoked, no longer has an end. */
function* promote(name: KeyTable, tenant: number, kid: string, now: Millis): Command<boolean> {
  const table = verbatim(name);
  yield* lockKeys(name, tenant);
  const promoted = yield* sql.run`
    update ${table} set
      signs_from = ${now},
      expires_at = case when exists (
        select 1 from ${table} newer
        where newer.tenant = ${table}.tenant and newer.number > ${table}.number
      ) then expires_at end
    where tenant = ${tenant} and kid = ${kid} and (expires_at is null or expires_at > ${now})`;
  return promoted === 1;
}

function* revoke(table: KeyTable, tenant: number, kid: string): Command<boolean> {
  yield* lockKeys(table, tenant);
  const revoked = yield* sql.run`
    delete from ${verbatim(table)} where tenant = ${tenant} and kid = ${kid}`;
  return revoked === 1;
}

/** The end of a key depends on keys that may not exist yet, so locks of rows are not enough. */
function lockKeys(table: KeyTable, tenant: number): Lock {
  return new Lock(`${table === 'signing_keys' ? 'keys' : table} ${tenant}`);
}
