import type { AuditEntry } from '../../core/audit-log.ts';
import { record } from './audit-log.ts';
import { aroundChanges, type Command, type Purposes } from './command.ts';

/** Returns connections whose changes record an entry at the end of each transaction that changes something. */
export function recordingOn(on: Purposes, entry: AuditEntry): Purposes {
  return aroundChanges(on, (command) => recorded(command(), entry));
}

/** The result of a change that itself finds out what it is about. */
export interface Targeted {
  /** Ids that come to the targets of the entry; without any, nothing has changed. */
  readonly targets: readonly string[];
}

function* recorded<T>(command: Command<T>, entry: AuditEntry): Command<T> {
  const result = yield* command;
  if (isTargeted(result)) yield* recordTargeted(entry, result);
  else if (isChanged(result)) yield* record(entry);
  return result;
}

function* recordTargeted(entry: AuditEntry, { targets }: Targeted): Command<void> {
  if (targets.length === 0) return;
  const all = [...new Set([...entry.details.targets, ...targets])];
  yield* record({ ...entry, details: { ...entry.details, targets: all } });
}

function isTargeted(result: unknown): result is Targeted {
  return typeof result === 'object' && result !== null && 'targets' in result;
}

/** The results of commands that say in one word that they changed something. */
const changes: ReadonlySet<unknown> = new Set(['accepted', 'added', 'cancelled', 'renamed']);

/**
 * Returns whether a command with this result has changed something: not with `refused`, nothing,
 * `false`, a count of 0, or a word that is not in {@link changes}.
 */
function isChanged(result: unknown): boolean {
  if (typeof result === 'string') return changes.has(result);
  if (typeof result === 'object' && result !== null) return !('refused' in result);
  return result !== undefined && result !== false && result !== 0;
}
