import type { Millis } from '../../core/clock.ts';
import type { SigningKey } from '../../core/types.ts';
import type { Seal } from '../seal.ts';

/** The columns of a signing key. */
export interface KeyRow {
  readonly kid: string;
  readonly private_jwk: Uint8Array;
  readonly created_at: Millis;
  readonly signs_from: Millis;
  readonly expires_at: Millis | null;
}

/** A signing key as the port has it. */
export function keyOf(seal: Seal, tenant: number, row: KeyRow): SigningKey {
  return {
    tenant,
    kid: row.kid,
    privateJwk: seal.open(row.private_jwk),
    createdAt: row.created_at,
    signsFrom: row.signs_from,
    expiresAt: row.expires_at ?? undefined,
  };
}
