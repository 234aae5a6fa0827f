import type { Millis } from '../../core/clock.ts';
import type { Client } from '../../core/types.ts';

/** The columns of a client. */
export interface ClientRow {
  readonly id: string;
  readonly name: string;
  /** A number where the engine has no booleans. */
  readonly global: number | boolean;
  readonly issuer: string | null;
  readonly secret_hash: string | null;
  readonly jwks: string | null;
  readonly version: number;
  readonly created_at: Millis;
}

/** A client as the port has it. */
export function clientOf(tenant: number, row: ClientRow): Client {
  return {
    tenant,
    id: row.id,
    name: row.name,
    global: Boolean(row.global),
    issuer: row.issuer ?? undefined,
    secretHash: row.secret_hash ?? undefined,
    jwks: row.jwks ?? undefined,
    version: row.version,
    createdAt: row.created_at,
  };
}
