import { Lock } from './command.ts';

/**
 * Keeps other commands from changing, until the commit, what the clients of the tenant may do. Locks
 * of rows are not enough: a caller and the client that it changes are two rows, which two callers
 * would lock in opposite order.
 */
export function lockAccess(tenant: number): Lock {
  return new Lock(`access ${tenant}`);
}
