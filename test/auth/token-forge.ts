import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { createRemoteKeys, keySetAt } from '../../src/auth/remote-keys.ts';
import {
  createTokenVerifier,
  type Expected,
  type FoundKey,
  type KeySource,
  type TokenVerifier,
} from '../../src/auth/signature.ts';
import { createManualClock } from '../helpers/clock.ts';

/** Builds tokens part by part, signed with the issuer's key or any other. */

export const issuer = 'https://login.example.com/';
export const audience = 'https://messages.example.com';
export const kid = 'own';
/** A whole second. */
export const now = Date.parse('2026-03-01T09:30:00.000Z');
export const nowSeconds = now / 1000;

/** The key pair of the issuer. */
export const issuerKeys = generateKeyPairSync('rsa', { modulusLength: 2048 });
/** A key pair that the issuer does not have. */
export const foreignKeys = generateKeyPairSync('rsa', { modulusLength: 2048 });

export const goodHeader = { alg: 'RS256', typ: 'JWT', kid };
export const goodClaims = {
  iss: issuer,
  aud: audience,
  exp: nowSeconds + 3600,
  azp: 'client',
  permissions: ['read:messages'],
};

/** A part of a token: an object is sent as JSON, a string or bytes as they are. */
export type Part = object | string | Uint8Array;
/** Returns the signature for the signed text. */
export type Signing = (signed: string) => Uint8Array | string;

/** Signs by RS256 with the key of the issuer. */
export const byIssuer: Signing = rs256(issuerKeys.privateKey);

/** Signs by RS256 with any key. */
export function rs256(key: KeyObject): Signing {
  return (signed) => sign('sha256', Buffer.from(signed, 'latin1'), key);
}

/** Builds a token in compact form (RFC 7515 section 7.1). A signature that is a string is not encoded. */
export function compact(
  header: Part = goodHeader,
  claims: Part = goodClaims,
  signing: Signing = byIssuer,
): string {
  const signed = `${encoded(header)}.${encoded(claims)}`;
  const signature = signing(signed);
  return `${signed}.${typeof signature === 'string' ? signature : toText(signature)}`;
}

function encoded(part: Part): string {
  if (part instanceof Uint8Array) return toText(part);
  return toText(Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)));
}

/** Base64url without padding. */
export function toText(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}

/** A key source that records lookups: no signature is verified without one. */
export interface RecordedKeys extends KeySource {
  /** The kids that were looked up, oldest first. */
  readonly lookups: string[];
}

/** Creates a key source with these keys by kid; by default the key of the issuer. */
export function recordedKeys(
  keys: Readonly<Record<string, FoundKey>> = { [kid]: issuerKeys.publicKey },
): RecordedKeys {
  const byKid = new Map(Object.entries(keys));
  const lookups: string[] = [];
  return {
    lookups,
    keyFor: (requested) => {
      lookups.push(requested);
      return byKid.get(requested);
    },
  };
}

/** Creates the key source of an issuer that publishes these keys. */
export function published(keys: readonly unknown[]): KeySource & { readonly fetches: number } {
  let fetches = 0;
  const fetch = (): Promise<Response> => {
    fetches += 1;
    return Promise.resolve(new Response(JSON.stringify({ keys })));
  };
  const report = (error: unknown): void => assert.fail(String(error));
  const { keyFor } = createRemoteKeys(
    { fetch, clock: createManualClock(), report },
    keySetAt(`${issuer}.well-known/jwks.json`),
  );
  return {
    keyFor,
    get fetches() {
      return fetches;
    },
  };
}

/** Accepts one issuer and one audience. */
export function expecting(keys: KeySource, acceptedIssuer = issuer): Expected {
  return { audience, keysOf: (iss) => (iss === acceptedIssuer ? keys : undefined) };
}

/** Verifies a token; returns `valid` or the reason why it is rejected. */
export async function reasonOf(
  token: string,
  {
    keys = recordedKeys(),
    verifier = createTokenVerifier(),
    at = now,
  }: { keys?: KeySource; verifier?: TokenVerifier; at?: number } = {},
): Promise<string> {
  const verification = await verifier.verify(token, expecting(keys), at);
  return verification.kind === 'valid' ? 'valid' : verification.reason;
}
