import type { Millis } from '../../core/clock.ts';
import type { Api } from '../../core/types.ts';

/** The columns of an API. */
export interface ApiRow {
  readonly id: string;
  readonly identifier: string;
  readonly name: string;
  readonly scopes: string;
  /** A number where the engine has no booleans. */
  readonly enforce_policies: number | boolean;
  readonly token_dialect: Api['tokenDialect'];
  readonly token_lifetime_seconds: number;
  readonly created_at: Millis;
}

/** An API as the port has it. */
export function apiOf(tenant: number, row: ApiRow): Api {
  return {
    tenant,
    id: row.id,
    identifier: row.identifier,
    name: row.name,
    scopes: JSON.parse(row.scopes) as Api['scopes'],
    enforcePolicies: Boolean(row.enforce_policies),
    tokenDialect: row.token_dialect,
    tokenLifetimeSeconds: row.token_lifetime_seconds,
    createdAt: row.created_at,
  };
}

/** What counts of a row in a page that is bounded in bytes. */
export function scopesBytes({ scopes }: Pick<ApiRow, 'scopes'>): number {
  return Buffer.byteLength(scopes);
}
