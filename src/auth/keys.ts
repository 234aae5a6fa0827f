import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { calculateJwkThumbprint, type JWK } from 'jose';
import type { Clock, Millis } from '../core/clock.ts';
import type { AuditEntry, MakeEntry } from '../core/audit-log.ts';
import type { SigningKey } from '../core/types.ts';
import type { KeyStore } from '../store/port/keys.ts';
import type { RecordingStore } from '../store/port/audit-log.ts';
import type { Store } from '../store/port/store.ts';
import { createTtlCache } from './ttl-cache.ts';

/** Keys of a tenant are read again after this time, so that all nodes follow a change within 10 s. */
const FRESH_MS = 5_000;
/**
 * An unknown `kid` may be a new key of another node, so keys older than this are read again; not
 * sooner, because anybody can invent any number of them.
 */
const UNKNOWN_KID_MS = 1_000;
/** From the publication of a new key until it signs: time for verifiers to fetch the key set. */
const PUBLISHED_BEFORE_SIGNING_MS = 10 * 60_000;
/**
 * The longest token lifetime an API can have (30 days), and 5 s leeway. A former key stays published
 * for this time, whatever lifetimes are configured now: one may have been lowered after a token was
 * issued.
 */
const TOKEN_LIFETIME_MAX_MS = 2_592_000_000 + 5_000;
const MODULUS_BITS = 2048;
/** Tenants whose keys are cached. */
const TENANTS_MAX = 10_000;

/** The signing keys of all tenants, cached for a short time. */
export interface Keyring {
  /**
   * Returns the key that signs now, or else the one that signs next. Throws when the tenant has none;
   * every start and every rotation leaves one.
   */
  signer(tenant: number, now: Millis): Promise<Signer>;
  /** Returns the JWK Set (RFC 7517 section 5, docs/http-api.md#key-set-and-discovery), newest first. */
  jwks(tenant: number, now: Millis): Promise<{ keys: PublicJwk[] }>;
  /**
   * Returns the public key that verifies tokens with this `kid`. It is the same object as long as the
   * key is published, so a token verified with it stays verified while this returns the same object.
   */
  keyFor(
    tenant: number,
    kid: string,
    now: Millis,
  ): KeyObject | undefined | Promise<KeyObject | undefined>;
  /** Stops watching the store. */
  close(): void;
}

export interface Signer {
  readonly kid: string;
  readonly key: KeyObject;
}

/** The published public key; has no fields of the private key. */
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

/** Creates the keyring. Its methods reject with `StoreUnavailable` when the keys cannot be read. */
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
      // No key signs yet if the node that created the only one has a clock ahead of this one.
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
      // Keys that are being read now are as new as possible.
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

type RotationStore = Pick<Store, 'keys' | 'recording'>;

/** Creates the first signing key of a tenant, unless it has one. */
export async function createFirstKey(
  store: RotationStore,
  tenant: number,
  now: Millis,
): Promise<void> {
  const present = await store.keys.list(tenant, now);
  if (present.length === 0) await addKey(store, tenant, { now, signsFrom: now });
}

/**
 * Publishes a new key, which signs 10 minutes later, or immediately. Former keys stay published until
 * every token signed with them has expired. Returns the `kid` of the new key.
 */
export async function rotateKey(
  store: RotationStore,
  tenant: number,
  { now, immediately, entry }: { now: Millis; immediately: boolean; entry?: MakeEntry | undefined },
): Promise<string> {
  const present = await store.keys.list(tenant, now);
  // Without a key that signs until then, the tenant could not issue tokens.
  const atOnce = immediately || signerOf(present, now) === undefined;
  const signsFrom = atOnce ? now : now + PUBLISHED_BEFORE_SIGNING_MS;
  return addKey(store, tenant, { now, signsFrom, entry });
}

/**
 * Removes a key: tokens signed with it are rejected from now on. If it was the signing key, the newest
 * other key signs at once, or a new one if there is no other.
 */
export async function revokeKey(
  store: RotationStore,
  tenant: number,
  kid: string,
  { now, entry }: { now: Millis; entry?: MakeEntry | undefined },
): Promise<'revoked' | 'unknown'> {
  const present = await store.keys.list(tenant, now);
  const recorded = keysOf(store, entry?.(tenant, [kid]));
  if (!present.some((key) => key.kid === kid)) {
    // One that does not open is not listed, and signs nothing.
    return (await recorded.revoke(tenant, kid)) ? 'revoked' : 'unknown';
  }
  const signed = signerOf(present, now)?.kid === kid;
  const newest = present.find((key) => key.kid !== kid);
  const signsFrom = signed || newest === undefined ? now : Math.max(now, newest.signsFrom);
  // The successor comes first, so that a signing key exists at every moment.
  if (newest === undefined) await addKey(store, tenant, { now, signsFrom, entry });
  else if (signed) await store.keys.promote(tenant, newest.kid, signsFrom);
  await recorded.revoke(tenant, kid);
  // A key that is the newest again no longer expires; the store can see that only now.
  const ending = newest?.expiresAt !== undefined;
  if (ending) await store.keys.promote(tenant, newest.kid, signsFrom);
  return 'revoked';
}

/** Returns the changes of keys; without an entry none is recorded. */
function keysOf(store: RotationStore, entry: AuditEntry | undefined): RecordingStore['keys'] {
  return entry === undefined ? store.keys : store.recording(entry).keys;
}

/** Returns the newest key that may sign. */
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
  { now, signsFrom, entry }: { now: Millis; signsFrom: Millis; entry?: MakeEntry | undefined },
): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: MODULUS_BITS });
  const jwk = privateKey.export({ format: 'jwk' });
  // RFC 7638: a thumbprint, so that equal kids mean equal keys.
  const kid = await calculateJwkThumbprint(jwk);
  const key = { tenant, kid, privateJwk: JSON.stringify(jwk), createdAt: now, signsFrom };
  await keysOf(store, entry?.(tenant, [kid])).add(key, signsFrom + TOKEN_LIFETIME_MAX_MS);
  return kid;
}

/** The keys of one tenant, newest first. */
type Ring = readonly RingKey[];

interface RingKey extends Pick<SigningKey, 'kid' | 'signsFrom' | 'expiresAt'> {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly publicJwk: PublicJwk;
}

/** Known keys keep their objects: parsing is slow, and verified tokens are tied to the object. */
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
