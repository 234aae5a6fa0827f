import type { Replacement } from '../store/port/ownership.ts';
import type { RaisedAlert } from './system-alerts.ts';

/**
 * Returns an alert for each tenant whose log ends earlier than this node knew. Several nodes notice the
 * same replacement; its generation makes their alerts one.
 */
export function storeAlerts({ generation, heads }: Replacement): readonly RaisedAlert[] {
  return heads
    .filter(({ before, now }) => now < before)
    .map(({ tenant, before, now }) => ({
      tenant,
      kind: 'store_went_back',
      key: `store_went_back ${generation}`,
      sentence: `the store failed over or was restored, and the log ends at event ${now} instead of ${before}: events acknowledged in between are lost`,
      fields: { head_before: before, head_now: now },
    }));
}

/** Returns the alert for a stream whose results the store refuses to record. */
export function refusedAlert({
  tenant,
  stream: id,
  name,
  code,
}: {
  readonly tenant: number;
  readonly stream: string;
  readonly name: string;
  readonly code: string;
}): RaisedAlert {
  return {
    tenant,
    kind: 'results_refused',
    key: `results_refused ${id}`,
    stream: { id, name },
    sentence: `the store refuses to record a result of an event stream (error ${code}): its events wait, and are sent again until it does`,
    fields: { error_code: code },
  };
}
