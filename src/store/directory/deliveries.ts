import type { DeliveryStore } from '../port/deliveries.ts';
import type { Hint } from '../port/hints.ts';
import { type Command, type Commands, sql, together } from './command.ts';
import { dayColumns, newDays } from './history.ts';
import { redeliver, redeliverMany } from './redelivery.ts';
import type { Runs } from './runs.ts';

export interface DeliveryDeps {
  readonly commands: Commands;
  readonly runs: Runs;
  readonly hint: (hint: Hint) => void;
}

/** Creates the commands that make deliveries due on request. */
export function createDeliveryStore({
  commands: { transact },
  runs,
  hint,
}: DeliveryDeps): Pick<DeliveryStore, 'redeliver' | 'redeliverMany' | 'addTest'> {
  return {
    redeliver: async (tenant, stream, eventId) => {
      const result = await transact('durable', () => redeliver(runs, tenant, stream, eventId));
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
    redeliverMany: async (tenant, stream, filter) => {
      const count = await transact('durable', () => redeliverMany(runs, tenant, stream, filter));
      if (count > 0) hint({ kind: 'stream', tenant, stream });
      return count;
    },
    addTest: async (tenant, stream, event) => {
      const result = await transact('durable', () => addTest(runs, tenant, stream, event));
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
  };
}

/** A test starts as a row: due now, with its body, and never in the log. */
function* addTest(
  runs: Runs,
  tenant: number,
  stream: string,
  event: Parameters<DeliveryStore['addTest']>[2],
): Command<Awaited<ReturnType<DeliveryStore['addTest']>>> {
  const [run, now] = yield* together(runs.lock(tenant, stream), runs.now());
  if (run === undefined) return 'unknown';
  if (run.status === 'disabled') return 'disabled';
  yield* together(
    sql.run`
      insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, due_at,
        body, trace ${dayColumns})
      values (${tenant}, ${stream}, ${event.id}, ${event.type}, ${event.time}, 'test', 'retrying',
        1, ${now}, ${event.body}, ${event.trace} ${newDays(now)})`,
    runs.noteDue(run),
  );
  return 'accepted';
}
