import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { calculateJwkThumbprint, type JWK } from 'jose';
import type { Clock, Millis } from '../core/clock.ts';
import type { SigningKey } from '../core/types.ts';
import type { KeyStore } from '../store/port/keys.ts';
import type { Store } from '../store/port/store.ts';
import { createTtlCache } from './ttl-cache.ts';

/** Keys of a tenant are read again after this time: other nodes follow within 10 s. */
const FRESH_MS = 5_000;
/** A `kid` nobody knows may be a second old on another node; but strangers can invent any number. */
const UNKNOWN_KID_MS = 1_000;
/** From the publication of a new key until it signs: verifiers fetch the key set meanwhile. */
const PUBLISHED_BEFORE_SIGNING_MS = 10 * 60_000;
/**
 * The longest lifetime an API can have (30 days), and 5 s leeway. A former key stays published for
 * so long and not for the longest lifetime of now: that may have been lowered after a token was made.
 */
const TOKEN_LIFETIME_MAX_MS = 2_592_000_000 + 5_000;
const MODULUS_BITS = 2048;
/** Tenants whose keys stay in memory. */
const TENANTS_MAX = 10_000;

/** The keys of all tenants, kept in memory as long as they are fresh. */
export interface Keyring {
  /**
   * The key that signs now, or the first that will. Throws when the tenant has none, which no start
   * leaves behind.
   */
  signer(tenant: number, now: Millis): Promise<Signer>;
  /** The JWK Set (RFC 7517 section 5) of docs/http-api.md#key-set-and-discovery, newest key first. */
  jwks(tenant: number, now: Millis): Promise<{ keys: PublicJwk[] }>;
  /**
   * The public key that verifies tokens with this `kid`. The same object as long as the key is
   * published, so a verdict reached with it holds while this answers it.
   */
  keyFor(
    tenant: number,
    kid: string,
    now: Millis,
  ): KeyObject | undefined | Promise<KeyObject | undefined>;
  /** Ends the watch on the store. */
  close(): void;
}

export interface Signer {
  readonly kid: string;
  readonly key: KeyObject;
}

/** The public half as it is published: no member of the private one can be among these. */
export interface PublicJwk {
  readonly kty: 'RSA';
  readonly use: 'sig';
  readonly alg: 'RS256';
  readonly kid: string;
  readonly n: string;
  readonly e: string;
}

export interface KeyringDeps {
  readonly keys: Pick<KeyStore, 'list'>;
  readonly watch: Store['watch'];
  readonly clock: Pick<Clock, 'elapsedMs'>;
}

/** Creates the keyring. Its methods throw `StoreUnavailable` when keys have to be read and cannot. */
export function createKeyring({ keys, watch, clock }: KeyringDeps): Keyring {
  const rings = createTtlCache<Ring>({ clock, freshMs: FRESH_MS, entriesMax: TENANTS_MAX });
  const close = watch((hint) => {
    if (hint.kind === 'keys') rings.expire(String(hint.tenant));
  });
  const ringAsOf = (tenant: number, now: Millis, ageMsMax: number): Ring | Promise<Ring> => {
    const read = async (former?: Ring): Promise<Ring> =>
      ringOf(await keys.list(tenant, now), former);
    return rings.get(String(tenant), read, ageMsMax);
  };

  return {
    signer: async (tenant, now) => {
      const ring = await ringAsOf(tenant, now, FRESH_MS);
      // None signs yet where the clock of the node that made the only one is ahead of this one.
      const key = signerOf(ring, now) ?? ring.findLast((one) => isLive(one, now));
      if (key === undefined) throw new Error(`tenant ${tenant} has no signing key`);
      return { kid: key.kid, key: key.privateKey };
    },
    jwks: async (tenant, now) => {
      const ring = await ringAsOf(tenant, now, FRESH_MS);
      return { keys: ring.filter((key) => isLive(key, now)).map((key) => key.publicJwk) };
    },
    keyFor: (tenant, kid, now) => {
      const ring = ringAsOf(tenant, now, FRESH_MS);
      // What is being read now is as new as can be.
      if (ring instanceof Promise) return ring.then((read) => verifierOf(read, kid, now));
      const known = verifierOf(ring, kid, now);
      if (known !== undefined) return known;
      const again = ringAsOf(tenant, now, UNKNOWN_KID_MS);
      if (again instanceof Promise) return again.then((read) => verifierOf(read, kid, now));
      return verifierOf(again, kid, now);
    },
    close,
  };
}

type RotationStore = { readonly keys: Pick<KeyStore, 'list' | 'add' | 'promote' | 'revoke'> };

/** Makes the first signing key of a tenant, unless it has one. */
export async function createFirstKey(
  store: RotationStore,
  tenant: number,
  now: Millis,
): Promise<void> {
  const present = await store.keys.list(tenant, now);
  if (present.length === 0) await addKey(store, tenant, now, now);
}

/**
 * Publishes a new key, which signs 10 minutes later, or at once. Keys before it stay published
 * until every token signed with them has expired.
 *
 * @returns the `kid` of the new key
 */
export async function rotateKey(
  store: RotationStore,
  tenant: number,
  { now, immediately }: { now: Millis; immediately: boolean },
): Promise<string> {
  const present = await store.keys.list(tenant, now);
  // Without a key that signs meanwhile, waiting would leave the tenant without tokens.
  const atOnce = immediately || signerOf(present, now) === undefined;
  return addKey(store, tenant, now, atOnce ? now : now + PUBLISHED_BEFORE_SIGNING_MS);
}

/**
 * Removes a key: tokens signed with it are refused from now on. When it was the key that signs,
 * the newest other key signs at once, or a new one where there is none.
 */
export async function revokeKey(
  store: RotationStore,
  tenant: number,
  kid: string,
  now: Millis,
): Promise<'revoked' | 'unknown'> {
  const present = await store.keys.list(tenant, now);
  if (!present.some((key) => key.kid === kid)) return 'unknown';
  const signed = signerOf(present, now)?.kid === kid;
  const newest = present.find((key) => key.kid !== kid);
  const signsFrom = signed || newest === undefined ? now : Math.max(now, newest.signsFrom);
  // The successor comes first, so that there is no moment without a key that signs.
  if (newest === undefined) await addKey(store, tenant, now, signsFrom);
  else if (signed) await store.keys.promote(tenant, newest.kid, signsFrom);
  await store.keys.revoke(tenant, kid);
  // A key that is the newest again has no end any more, which the store sees only now.
  const ending = newest?.expiresAt !== undefined;
  if (ending) await store.keys.promote(tenant, newest.kid, signsFrom);
  return 'revoked';
}

/** The newest key among those that may sign: the list is newest first. */
function signerOf<K extends Pick<SigningKey, 'signsFrom' | 'expiresAt'>>(
  newestFirst: readonly K[],
  now: Millis,
): K | undefined {
  return newestFirst.find((key) => key.signsFrom <= now && isLive(key, now));
}

function isLive({ expiresAt }: Pick<SigningKey, 'expiresAt'>, now: Millis): boolean {
  return expiresAt === undefined || now < expiresAt;
}

async function addKey(
  store: RotationStore,
  tenant: number,
  now: Millis,
  signsFrom: Millis,
): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: MODULUS_BITS });
  const jwk = privateKey.export({ format: 'jwk' });
  // RFC 7638: the same kid means the same key, on every node and for ever.
  const kid = await calculateJwkThumbprint(jwk);
  const key = { tenant, kid, privateJwk: JSON.stringify(jwk), createdAt: now, signsFrom };
  await store.keys.add(key, signsFrom + TOKEN_LIFETIME_MAX_MS);
  return kid;
}

/** The keys of one tenant, newest first. */
type Ring = readonly RingKey[];

interface RingKey extends Pick<SigningKey, 'kid' | 'signsFrom' | 'expiresAt'> {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly publicJwk: PublicJwk;
}

/** Keys that were known keep their objects: parsing is slow, and verdicts hang on them. */
function ringOf(rows: readonly SigningKey[], former: Ring = []): Ring {
  return rows.map(({ kid, signsFrom, expiresAt, privateJwk }) => {
    const known = former.find((key) => key.kid === kid);
    return { ...(known ?? parsed(kid, privateJwk)), signsFrom, expiresAt };
  });
}

function parsed(
  kid: string,
  privateJwk: string,
): Pick<RingKey, 'kid' | 'privateKey' | 'publicKey' | 'publicJwk'> {
  const privateKey = createPrivateKey({ key: JSON.parse(privateJwk) as JWK, format: 'jwk' });
  const publicKey = createPublicKey(privateKey);
  const { n, e } = publicKey.export({ format: 'jwk' });
  if (n === undefined || e === undefined) throw new Error(`signing key ${kid} is not an RSA key`);
  const publicJwk: PublicJwk = { kty: 'RSA', use: 'sig', alg: 'RS256', kid, n, e };
  return { kid, privateKey, publicKey, publicJwk };
}

function verifierOf(ring: Ring, kid: string, now: Millis): KeyObject | undefined {
  const key = ring.find((candidate) => candidate.kid === kid);
  return key !== undefined && isLive(key, now) ? key.publicKey : undefined;
}
