import { hash, timingSafeEqual } from 'node:crypto';
import type { RandomBytes } from '../core/clock.ts';

const SECRET_BYTES = 32;
const ID_BYTES = 16;

/** The id of a client and its secret, which is known at this moment only. */
export interface Credentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

/** Shows credentials to the operator, or keeps them where the operator finds them. */
export type DeliverCredentials = (made: Credentials) => Promise<void>;

/** A new client secret: 256 random bits as 43 characters that need no escaping anywhere. */
export function makeClientSecret(random: RandomBytes): string {
  return Buffer.from(random(SECRET_BYTES)).toString('base64url');
}

/** A new client id: 32 hexadecimal digits, so that it never begins with a dash. */
export function makeClientId(random: RandomBytes): string {
  return Buffer.from(random(ID_BYTES)).toString('hex');
}

/**
 * What is kept of a secret: its SHA-256, base64url. A value of 256 random bits needs no slow hash;
 * one that an operator chose stands in the environment as plain text anyhow.
 */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

/**
 * Whether a secret is the one of which the hash is kept. Takes the same time whatever is sent, and
 * also when there is nothing to compare with.
 */
export function secretMatches(secret: string, secretHash: string | undefined): boolean {
  const sent = Buffer.from(hashSecret(secret));
  const kept = Buffer.from(secretHash ?? hashSecret(''));
  const same = sent.length === kept.length && timingSafeEqual(sent, kept);
  return same && secretHash !== undefined;
}

/** The rule "no more than one's own" of docs/http-api.md#scope-delegation: whether the caller has all of these. */
export function withinOwn(callerScopes: readonly string[], scopes: readonly string[]): boolean {
  return scopes.every((scope) => callerScopes.includes(scope));
}

/** A new id of a client grant. */
export function makeGrantId(random: RandomBytes): string {
  return `cgr_${Buffer.from(random(ID_BYTES)).toString('hex')}`;
}
