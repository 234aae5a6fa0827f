import type { Millis } from '../../core/clock.ts';
import type { Role } from '../../core/types.ts';

/** The columns of a role. */
export interface RoleRow {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly created_at: Millis;
}

/** A role as the port has it. */
export function roleOf(
  tenant: number,
  { id, name, description, created_at: createdAt }: RoleRow,
): Role {
  return { tenant, id, name, description, createdAt };
}
