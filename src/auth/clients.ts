import { hash, timingSafeEqual } from 'node:crypto';
import type { RandomBytes } from '../core/clock.ts';

const SECRET_BYTES = 32;
const ID_BYTES = 16;

/** The id of a client and its secret, of which only a hash is stored. */
export interface Credentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Shows credentials to the operator, or writes them to a file for the operator. */
export type DeliverCredentials = (credentials: Credentials) => Promise<void>;

/** Generates a client secret: 256 random bits as 43 characters that need no escaping anywhere. */
export function makeClientSecret(random: RandomBytes): string {
  return Buffer.from(random(SECRET_BYTES)).toString('base64url');
}

/** Generates a client id: 32 hexadecimal digits, so that it never begins with a dash. */
export function makeClientId(random: RandomBytes): string {
  return Buffer.from(random(ID_BYTES)).toString('hex');
}

/**
 * Returns the stored form of a secret: its SHA-256 in base64url. 256 random bits need no slow hash; a
 * secret that the operator chose is in the environment as plain text anyway.
 */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

/**
 * Returns whether a secret matches the stored hash. Takes the same time for every secret, also
 * without a stored hash.
 */
export function secretMatches(secret: string, secretHash: string | undefined): boolean {
  const sent = Buffer.from(hashSecret(secret));
  const stored = Buffer.from(secretHash ?? hashSecret(''));
  const isEqual = sent.length === stored.length && timingSafeEqual(sent, stored);
  return isEqual && secretHash !== undefined;
}

/** Returns whether the caller has all of the scopes (docs/http-api.md#scope-delegation). */
export function hasAllScopes(callerScopes: readonly string[], scopes: readonly string[]): boolean {
  return scopes.every((scope) => callerScopes.includes(scope));
}

/** Generates the id of a client grant. */
export function makeGrantId(random: RandomBytes): string {
  return `cgr_${Buffer.from(random(ID_BYTES)).toString('hex')}`;
}
