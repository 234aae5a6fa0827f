import type { Grant } from '../../core/types.ts';

/** The columns of a grant. */
export interface GrantRow {
  readonly id: string;
  readonly client: string;
  readonly api: string;
  readonly scope: string;
}

/** A grant as the port has it. */
export function grantOf(tenant: number, { id, client, api, scope }: GrantRow): Grant {
  return { tenant, id, client, api, scope: JSON.parse(scope) as string[] };
}

/** What counts of a row in a page that is bounded in bytes. */
export function scopeBytes({ scope }: GrantRow): number {
  return Buffer.byteLength(scope);
}
