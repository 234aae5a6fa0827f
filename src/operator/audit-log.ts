import type { AuditEntry } from '../core/audit-log.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';

/** Returns the entry of the audit log about what a command changes in a tenant: the ids `targets`. */
export function operatorEntry(
  { clock, random }: { readonly clock: Pick<Clock, 'now'>; readonly random: RandomBytes },
  command: string,
  tenant: number,
  targets: readonly string[],
): AuditEntry {
  const id = makeId('log_', clock.now(), random);
  const description = `leat ${command}`;
  const type = command === 'keys rotate' ? 'leat_key_rotated' : 'leat_operator';
  return { tenant, id, type, description, details: { targets, command } };
}
