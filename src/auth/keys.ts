import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { calculateJwkThumbprint, type JWK } from 'jose';
import type { Clock, Millis } from '../core/clock.ts';
import type { AuditEntry, MakeEntry } from '../core/audit-log.ts';
import type { SigningKey } from '../core/types.ts';
import type { KeyStore } from '../store/port/keys.ts';
import type { RecordingStore } from '../store/port/audit-log.ts';
import type { Store } from '../store/port/store.ts';
import { accessTokenKeys, FRESH_MS, type KeyUse, type RsaJwk } from './key-use.ts';
import { createTtlCache } from './ttl-cache.ts';

/**
 * An unknown `kid` may be a new key of another node, so keys older than this are read again; not
 * sooner, because anybody can invent any number of them.
 */
const UNKNOWN_KID_MS = 1_000;
/** From the publication of a new key until it signs: time for verifiers to fetch the key set. */
const PUBLISHED_BEFORE_SIGNING_MS = 10 * 60_000;
/** Tenants whose keys are cached. */
const TENANTS_MAX = 10_000;

/** The keys of one use of all tenants, cached for a short time. */
export interface Keyring<J = RsaJwk> {
  /**
   * Returns the key that signs now, or else the one that signs next. Throws when the tenant has none;
   * every start and every rotation leaves one.
   */
  signer(tenant: number, now: Millis): Promise<Signer>;
  /** Does the same; returns undefined when the tenant has none, and no promise of cached keys. */
  findSigner(tenant: number, now: Millis): Signer | undefined | Promise<Signer | undefined>;
  /** Returns the JWK Set (RFC 7517 section 5, docs/http-api.md#key-set-and-discovery), newest first. */
  jwks(tenant: number, now: Millis): Promise<{ keys: J[] }>;
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

export interface KeyringDeps {
  readonly keys: Pick<KeyStore, 'list'>;
  readonly watch: Store['watch'];
  readonly clock: Pick<Clock, 'elapsedMs'>;
}

/** Creates the keyring of the keys that sign access tokens. */
export function createKeyring(deps: KeyringDeps): Keyring {
  return createKeyringOf(accessTokenKeys, deps);
}

/**
 * Creates the keyring of a use. Its methods reject with `StoreUnavailable` when the keys cannot be
 * read.
 */
export function createKeyringOf<J>(
  use: KeyUse<J>,
  { keys, watch, clock }: KeyringDeps,
): Keyring<J> {
  const rings = createTtlCache<Ring<J>>({ clock, freshMs: FRESH_MS, entriesMax: TENANTS_MAX });
  const findSigner: Keyring<J>['findSigner'] = (tenant, now) => {
    const ring = ringAsOf(tenant, now, FRESH_MS);
    if (ring instanceof Promise) return ring.then((read) => signerIn(read, now));
    return signerIn(ring, now);
  };
  const close = watch((hint) => {
    if (hint.kind === 'keys') rings.expire(String(hint.tenant));
  });
  const ringAsOf = (tenant: number, now: Millis, ageMsMax: number): Ring<J> | Promise<Ring<J>> => {
    const read = async (former?: Ring<J>): Promise<Ring<J>> =>
      ringOf(use, await keys.list(tenant, now), former);
    return rings.get(String(tenant), read, ageMsMax);
  };

  return {
    signer: async (tenant, now) => {
      const signer = await findSigner(tenant, now);
      if (signer !== undefined) return signer;
      throw new Error(`tenant ${tenant} has no key that signs ${use.signs}`);
    },
    findSigner,
    jwks: async (tenant, now) => {
      const ring = await ringAsOf(tenant, now, use.jwksFreshMs);
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

type RotationStore = Pick<Store, 'keys' | 'webhookKeys' | 'recording'>;

/**
 * Creates the first key of a tenant, unless it has one. Of several nodes that do, one adds its own.
 */
export async function createFirstKey(
  keys: Pick<KeyStore, 'list' | 'addFirst'>,
  tenant: number,
  now: Millis,
  use: KeyUse<unknown> = accessTokenKeys,
): Promise<void> {
  const present = await keys.list(tenant, now);
  if (present.length > 0) return;
  await keys.addFirst(await newKey(use, tenant, { now, signsFrom: now }));
}

/** How keys are changed. */
interface KeyChange {
  readonly now: Millis;
  readonly entry?: MakeEntry | undefined;
  readonly use?: KeyUse<unknown>;
}

/**
 * Publishes a new key, which signs 10 minutes later, or immediately. Former keys stay published until
 * every token signed with them has expired, those of webhooks for 7 days.
 */
export async function rotateKey(
  store: RotationStore,
  tenant: number,
  { now, immediately, entry, use = accessTokenKeys }: KeyChange & { immediately: boolean },
): Promise<Rotated> {
  const present = await store[use.part].list(tenant, now);
  // Without a key that signs until then, nothing could be signed.
  const atOnce = immediately || signerOf(present, now) === undefined;
  const signsFrom = atOnce ? now : now + PUBLISHED_BEFORE_SIGNING_MS;
  const key = await newKey(use, tenant, { now, signsFrom });
  await addKey(store, use, key, entry);
  return { kid: key.kid, atOnce };
}

/** The key that a rotation has added. */
export interface Rotated {
  readonly kid: string;
  /** It signs already. */
  readonly atOnce: boolean;
}

/**
 * Removes a key: what was signed with it is rejected from now on. If it was the signing key, the
 * newest other key signs at once, or a new one if there is no other.
 */
export async function revokeKey(
  store: RotationStore,
  tenant: number,
  kid: string,
  { now, entry, use = accessTokenKeys }: KeyChange,
): Promise<'revoked' | 'unknown'> {
  const keys = store[use.part];
  const present = await keys.list(tenant, now);
  const recorded = recordedKeys(store, use, entry?.(tenant, [kid]));
  if (!present.some((key) => key.kid === kid)) {
    // One that does not open is not listed, and signs nothing.
    return (await recorded.revoke(tenant, kid)) ? 'revoked' : 'unknown';
  }
  const signed = signerOf(present, now)?.kid === kid;
  const newest = present.find((key) => key.kid !== kid);
  const signsFrom = signed || newest === undefined ? now : Math.max(now, newest.signsFrom);
  // The successor comes first, so that a signing key exists at every moment.
  if (newest === undefined) {
    await addKey(store, use, await newKey(use, tenant, { now, signsFrom }), entry);
  } else if (signed) await keys.promote(tenant, newest.kid, signsFrom);
  await recorded.revoke(tenant, kid);
  // A key that is the newest again no longer expires; the store can see that only now.
  const ending = newest?.expiresAt !== undefined;
  if (ending) await keys.promote(tenant, newest.kid, signsFrom);
  return 'revoked';
}

/** Returns the changes of keys; without an entry none is recorded. */
function recordedKeys(
  store: RotationStore,
  { part }: KeyUse<unknown>,
  entry: AuditEntry | undefined,
): RecordingStore['keys'] {
  return entry === undefined ? store[part] : store.recording(entry)[part];
}

/** Returns the newest key that may sign. */
export function signerOf<K extends Pick<SigningKey, 'signsFrom' | 'expiresAt'>>(
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
  use: KeyUse<unknown>,
  key: Omit<SigningKey, 'expiresAt'>,
  entry: MakeEntry | undefined,
): Promise<void> {
  const recorded = recordedKeys(store, use, entry?.(key.tenant, [key.kid]));
  await recorded.add(key, key.signsFrom + use.formerPublishedMs);
}

async function newKey(
  use: KeyUse<unknown>,
  tenant: number,
  { now, signsFrom }: { readonly now: Millis; readonly signsFrom: Millis },
): Promise<Omit<SigningKey, 'expiresAt'>> {
  const { privateKey } = await use.generate();
  const jwk = privateKey.export({ format: 'jwk' });
  // RFC 7638: a thumbprint, so that equal kids mean equal keys.
  const kid = await calculateJwkThumbprint(jwk);
  return { tenant, kid, privateJwk: JSON.stringify(jwk), createdAt: now, signsFrom };
}

/** The keys of one tenant, newest first. */
type Ring<J> = readonly RingKey<J>[];

interface RingKey<J> extends Pick<SigningKey, 'kid' | 'signsFrom' | 'expiresAt'> {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly publicJwk: J;
}

/** Known keys keep their objects: parsing is slow, and verified tokens are tied to the object. */
function ringOf<J>(use: KeyUse<J>, rows: readonly SigningKey[], former: Ring<J> = []): Ring<J> {
  return rows.map(({ kid, signsFrom, expiresAt, privateJwk }) => {
    const known = former.find((key) => key.kid === kid);
    return { ...(known ?? parsed(use, kid, privateJwk)), signsFrom, expiresAt };
  });
}

function parsed<J>(
  use: KeyUse<J>,
  kid: string,
  privateJwk: string,
): Pick<RingKey<J>, 'kid' | 'privateKey' | 'publicKey' | 'publicJwk'> {
  const privateKey = createPrivateKey({ key: JSON.parse(privateJwk) as JWK, format: 'jwk' });
  const publicKey = createPublicKey(privateKey);
  const publicJwk = use.publicJwk(kid, publicKey);
  if (publicJwk === undefined)
    throw new Error(`key ${kid}, which signs ${use.signs}, is of another type`);
  return { kid, privateKey, publicKey, publicJwk };
}

function signerIn<J>(ring: Ring<J>, now: Millis): Signer | undefined {
  // No key signs yet if the node that created the only one has a clock ahead of this one.
  const key = signerOf(ring, now) ?? ring.findLast((one) => isLive(one, now));
  return key && { kid: key.kid, key: key.privateKey };
}

function verifierOf<J>(ring: Ring<J>, kid: string, now: Millis): KeyObject | undefined {
  const key = ring.find((candidate) => candidate.kid === kid);
  return key !== undefined && isLive(key, now) ? key.publicKey : undefined;
}
