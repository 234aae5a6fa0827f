import type { Client } from './types.ts';

/** The version of the credentials of a client whose id was never used before. */
export const firstCredentialsVersion = 1;

type Credentials = Pick<Client, 'secretHash' | 'jwks'>;

/**
 * Returns whether tokens issued with the credentials of before must stop working: the secret was
 * replaced or a key is gone. A key that is only added leaves them valid, so that keys can be changed
 * without an interruption.
 */
export function endsTokens(before: Credentials, after: Credentials): boolean {
  if (before.secretHash !== after.secretHash) return true;
  const kept = new Set(keysOf(after));
  return keysOf(before).some((key) => !kept.has(key));
}

/** Returns each key of the set as JSON text. */
function keysOf({ jwks }: Pick<Client, 'jwks'>): string[] {
  if (jwks === undefined) return [];
  const { keys } = JSON.parse(jwks) as { readonly keys: readonly object[] };
  return keys.map((key) => JSON.stringify(key, Object.keys(key).toSorted()));
}
