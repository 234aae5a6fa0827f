import type { Millis } from '../../core/clock.ts';
import type { User } from '../../core/types.ts';

/** The columns of a user. */
export interface UserRow {
  readonly id: string;
  readonly connection: string;
  readonly email: string;
  readonly username: string | null;
  readonly password_hash: string;
  readonly profile: string;
  readonly created_at: Millis;
  readonly updated_at: Millis;
}

/** A user as the port has it. */
export function userOf(tenant: number, row: UserRow): User {
  return {
    tenant,
    id: row.id,
    connection: row.connection,
    email: row.email,
    username: row.username ?? undefined,
    passwordHash: row.password_hash,
    profileJson: row.profile,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

/** What counts of a row in a page that is bounded in bytes. */
export function profileBytes({ profile }: UserRow): number {
  return Buffer.byteLength(profile);
}
