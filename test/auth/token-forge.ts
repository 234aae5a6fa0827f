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
import { handClock } from './fixture.ts';

/** Makes tokens as nobody should: part by part, with the issuer's own key or with any other. */

export const issuer = 'https://login.example.com/';
export const audience = 'https://messages.example.com';
export const kid = 'own';
/** A whole second. */
export const now = Date.parse('2026-03-01T09:30:00.000Z');
export const nowSeconds = now / 1000;

/** The key of the issuer. Only tests of what the issuer itself may write sign with it. */
export const own = generateKeyPairSync('rsa', { modulusLength: 2048 });
/** A key that the issuer does not have. */
export const stranger = generateKeyPairSync('rsa', { modulusLength: 2048 });

export const goodHeader = { alg: 'RS256', typ: 'JWT', kid };
export const goodClaims = {
  iss: issuer,
  aud: audience,
  exp: nowSeconds + 3600,
  azp: 'client',
  permissions: ['read:messages'],
};

/** A part of a token: an object stands for its JSON, a text or bytes for themselves. */
export type Part = object | string | Uint8Array;
/** Makes the signature of what is signed. */
export type Signing = (signed: string) => Uint8Array | string;

/** RS256 with the key of the issuer. */
export const byIssuer: Signing = rs256(own.privateKey);

/** RS256 with any key. */
export function rs256(key: KeyObject): Signing {
  return (signed) => sign('sha256', Buffer.from(signed, 'latin1'), key);
}

/** A token in the compact form (RFC 7515 section 7.1). A signature that is a text is not encoded. */
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

/** A source of keys that counts how often it is asked: no signature is checked without asking. */
export interface CountedKeys extends KeySource {
  readonly asked: string[];
}

/** The keys of the issuer by kid; its one key unless said. */
export function countedKeys(
  keys: Readonly<Record<string, FoundKey>> = { [kid]: own.publicKey },
): CountedKeys {
  const byKid = new Map(Object.entries(keys));
  const asked: string[] = [];
  const source: CountedKeys = {
    asked,
    keyFor: (wanted) => {
      asked.push(wanted);
      return byKid.get(wanted);
    },
  };
  return source;
}

/** The keys that an issuer publishes, as the verifier gets at them. */
export function published(keys: readonly unknown[]): KeySource & { readonly fetches: number } {
  let fetches = 0;
  const fetch = (): Promise<Response> => {
    fetches += 1;
    return Promise.resolve(new Response(JSON.stringify({ keys })));
  };
  const report = (error: unknown): void => assert.fail(String(error));
  const { keyFor } = createRemoteKeys(
    { fetch, clock: handClock(), report },
    keySetAt(`${issuer}.well-known/jwks.json`),
  );
  return {
    keyFor,
    get fetches() {
      return fetches;
    },
  };
}

/** One issuer and one audience. */
export function expecting(keys: KeySource, wantedIssuer = issuer): Expected {
  return { audience, keysOf: (iss) => (iss === wantedIssuer ? keys : undefined) };
}

/** `valid`, or the reason why a token is refused. */
export async function reasonOf(
  token: string,
  {
    keys = countedKeys(),
    verifier = createTokenVerifier(),
    at = now,
  }: { keys?: KeySource; verifier?: TokenVerifier; at?: number } = {},
): Promise<string> {
  const verdict = await verifier.verify(token, expecting(keys), at);
  return verdict.kind === 'valid' ? 'valid' : verdict.reason;
}
