import { createPublicKey, type KeyObject } from 'node:crypto';
import type { IssuerRules } from '../core/claim-rules.ts';
import type { Clock } from '../core/clock.ts';
import { mayVerify } from '../core/key-purpose.ts';
import { dayMs } from '../core/units.ts';
import { causeOf, documentBounds, fetchBounded, type FetchDeps } from './bounded-fetch.ts';
import { lastByteOf, rsaKeyError } from './rsa-key.ts';
import type { FoundKey, KeySource } from './signature.ts';

/** An older key set is fetched again in the background. */
const FRESH_MS = 10 * 60_000;
/** If that fails, the last good key set stays in use for this time. */
const USABLE_MS = dayMs;
/** Minimum time between fetches for an unknown kid: anybody can invent any number of kids. */
const COOL_DOWN_MS = 30_000;
/** Minimum time between fetches while there is no key set: every token waits for the first one. */
const FIRST_RETRY_MS = 1_000;
const KEYS_MAX = 100;
const URL_LENGTH_MAX = 2048;

export interface RemoteKeysDeps extends FetchDeps {
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** Receives the error when a key set could not be fetched. */
  readonly report: (error: unknown) => void;
}

/** Returns the URL of a key set; called before each fetch. */
export type KeySetLocation = (deps: FetchDeps) => Promise<string>;

/** Creates the key sources of LEAT_TRUSTED_ISSUERS, by issuer. The first token triggers the first fetch. */
export function createTrustedIssuers(
  deps: RemoteKeysDeps,
  issuers: readonly string[],
  rules: readonly IssuerRules[] = [],
): ReadonlyMap<string, KeySource> {
  const sourceOf = (issuer: string): KeySource => ({
    ...createRemoteKeys(deps, keySetOfIssuer(issuer)),
    rules: rules.find((each) => each.issuer === issuer)?.rules,
  });
  return new Map(issuers.map((issuer) => [issuer, sourceOf(issuer)]));
}

/** Locates a key set at a fixed URL. */
export function keySetAt(url: string): KeySetLocation {
  return () => Promise.resolve(url);
}

/** Locates a key set by the discovery document of an issuer (RFC 8414 section 3). */
export function keySetOfIssuer(issuer: string): KeySetLocation {
  return async (deps) => {
    const base = issuer.endsWith('/') ? issuer : `${issuer}/`;
    const url = `${base}.well-known/openid-configuration`;
    const document = Object(await fetchJson(deps, url)) as Record<string, unknown>;
    // RFC 8414 section 3.3: otherwise one issuer could pass off the keys of another as its own.
    if (document['issuer'] !== issuer) throw new Error(`${url}: the issuer is another one`);
    const { jwks_uri: keySet } = document;
    const scheme = issuer.slice(0, issuer.indexOf('//'));
    if (typeof keySet !== 'string' || !keySet.startsWith(`${scheme}//`)) {
      throw new Error(`${url}: jwks_uri is not a ${scheme} URL`);
    }
    // Errors name the URL, and the log must not grow by whatever is written there.
    if (keySet.length > URL_LENGTH_MAX) {
      throw new Error(`${url}: jwks_uri has more than ${URL_LENGTH_MAX} characters`);
    }
    return keySet;
  };
}

/**
 * Caches the public keys of another server: docs/http-api.md#key-sets-of-other-servers. At most one
 * fetch runs at a time; callers that need a key during it wait for it.
 */
export function createRemoteKeys(deps: RemoteKeysDeps, location: KeySetLocation): KeySource {
  const { clock } = deps;
  let keys: KeySet = new Map();
  let fetchedAtMs = -Infinity;
  let triedAtMs = -Infinity;
  let failed = false;
  let fetching: Promise<void> | undefined;

  const fetchSet = async (): Promise<void> => {
    triedAtMs = clock.elapsedMs();
    try {
      keys = keySetOf(await fetchJson(deps, await location(deps)), keys);
      fetchedAtMs = clock.elapsedMs();
      failed = false;
    } catch (error) {
      failed = true;
      deps.report(error);
    } finally {
      fetching = undefined;
    }
  };
  const refresh = (): Promise<void> => (fetching ??= fetchSet());
  const found = (kid: string): FoundKey => keys.get(kid) ?? (failed ? 'unavailable' : undefined);

  return {
    keyFor: (kid) => {
      const nowMs = clock.elapsedMs();
      const ageMs = nowMs - fetchedAtMs;
      if (ageMs >= USABLE_MS) keys = new Map();
      const cooling = nowMs - triedAtMs < (keys.size > 0 ? COOL_DOWN_MS : FIRST_RETRY_MS);
      const key = keys.get(kid);
      if (key !== undefined) {
        if (ageMs >= FRESH_MS && !cooling) void refresh();
        return key;
      }
      if (cooling && fetching === undefined) return found(kid);
      return refresh().then(() => found(kid));
    },
  };
}

type KeySet = ReadonlyMap<string, KeyObject>;

/**
 * Returns the keys of a JWK Set that can verify RS256, by kid; ignores others (RFC 7517 section 5). The
 * empty kid, of tokens without one, has the key without a kid, or the only key.
 * An unchanged key keeps its object, so that tokens verified with it stay verified.
 */
function keySetOf(document: unknown, previous: KeySet): KeySet {
  const { keys } = Object(document) as Record<string, unknown>;
  if (!Array.isArray(keys)) throw new Error('the key set has no keys');
  if (keys.length > KEYS_MAX) throw new Error(`the key set has more than ${KEYS_MAX} keys`);
  const found = new Map<string, KeyObject>();
  for (const jwk of keys) {
    const { kid = '' } = Object(jwk) as Record<string, unknown>;
    const key = verificationKey(Object(jwk) as Record<string, unknown>);
    if (typeof kid !== 'string' || key === undefined || found.has(kid)) continue;
    const known = previous.get(kid);
    found.set(kid, known?.equals(key) === true ? known : key);
  }
  const [only, ...more] = found.values();
  if (only !== undefined && more.length === 0) found.set('', only);
  return found;
}

function verificationKey(jwk: Readonly<Record<string, unknown>>): KeyObject | undefined {
  const { kty, alg = 'RS256', n, e } = jwk;
  if (kty !== 'RSA' || alg !== 'RS256' || !mayVerify(jwk)) return undefined;
  if (typeof n !== 'string' || typeof e !== 'string') return undefined;
  try {
    const key = createPublicKey({ key: { kty, n, e }, format: 'jwk' });
    return isSound(key, n) ? key : undefined;
  } catch {
    // The other keys of the set stay usable.
    return undefined;
  }
}

function isSound({ asymmetricKeyDetails: details }: KeyObject, modulus: string): boolean {
  const { modulusLength: bits = 0, publicExponent: exponent = 0n } = details ?? {};
  return rsaKeyError({ bits, exponent, lastByte: lastByteOf(modulus) }) === undefined;
}

/**
 * Fetches a JSON document from another server: 5 s in total, 256 KiB, no redirects. Rejects with an
 * error that names the URL and the cause.
 */
async function fetchJson(deps: FetchDeps, url: string): Promise<unknown> {
  const headers = { accept: 'application/json' };
  try {
    return await fetchBounded(deps, url, { headers }, documentBounds, async (response, bytes) => {
      if (response.status !== 200) throw new Error(`status ${response.status}`);
      return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(await bytes())) as unknown;
    });
  } catch (error) {
    throw new Error(`${url}: ${causeOf(error)}`, { cause: error });
  }
}
