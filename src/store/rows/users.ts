import type { Millis } from '../../core/clock.ts';
import type { ShownUser, User } from '../../core/types.ts';

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

/** A user as the port has it to be changed. */
export function userOf(tenant: number, row: UserRow): User {
  const { profileJson, ...user } = shownUser(tenant, row);
  return { ...user, profile: JSON.parse(profileJson) as User['profile'] };
}

/** A user as the port has it to be shown. */
export function shownUser(tenant: number, row: UserRow): ShownUser {
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
