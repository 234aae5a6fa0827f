import type { MakeEntry } from '../core/audit-log.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';

/** Returns the function that makes the entries of a command in the audit log. */
export function entryOfCommand(
  { clock, random }: { readonly clock: Pick<Clock, 'now'>; readonly random: RandomBytes },
  command: string,
): MakeEntry {
  return (tenant, targets) => ({
    tenant,
    id: makeId('log_', clock.now(), random),
    type: command.startsWith('keys rotate') ? 'leat_key_rotated' : 'leat_operator',
    description: `leat ${command}`,
    details: { targets, command },
  });
}
