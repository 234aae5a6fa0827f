import type { AuditEntry } from '../../core/audit-log.ts';
import { keyedId } from '../../core/ids.ts';
import type { Run } from '../rows/runs.ts';

/** Why a stream was disabled automatically, as its row and entries of the audit log name it. */
export const disabledReasons = {
  consecutive: 'consecutive_failures',
  total: 'open_failures',
  gone: 'gone',
  lag: 'lag',
} as const;

/** Returns the entry of a stream that is disabled automatically; `run` is the one before. */
export function disabledEntry(
  { tenant, stream, version }: Pick<Run, 'tenant' | 'stream' | 'version'>,
  by: keyof typeof disabledReasons,
): AuditEntry {
  return {
    tenant,
    // The version rises with each change: no stream is disabled twice at one version.
    id: keyedId('log_', ['leat_stream_disabled', String(tenant), stream, String(version)]),
    type: 'leat_stream_disabled',
    description: 'An event stream was disabled automatically',
    details: { targets: [stream], reason: disabledReasons[by] },
  };
}
