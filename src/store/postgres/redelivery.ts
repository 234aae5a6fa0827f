import type { Millis } from '../../core/clock.ts';
import type { DeliveryState, Offset } from '../../core/types.ts';
import type { DeliveryStore, FailureFilter } from '../port/deliveries.ts';
import { addAttempts, wasDelivered } from './attempts.ts';
import type { Queries } from './database.ts';
import { dayOf } from './partitions.ts';
import { lockRun, noteChanges, type Run } from './runs.ts';
import { storeNow } from './time.ts';

/** Starts a new cycle for one failure; see {@link DeliveryStore.redeliver}. */
export async function redeliver(
  tx: Queries,
  tenant: number,
  stream: string,
  eventId: string,
): ReturnType<DeliveryStore['redeliver']> {
  const [run, now] = await Promise.all([lockRun(tx, tenant, stream), storeNow(tx)]);
  if (run === undefined) return 'unknown';
  const row = await tx.get<{ state: DeliveryState; offset: Offset | null }>`
    select state, "offset" from deliveries
    where tenant = ${tenant} and stream = ${stream} and event_id = ${eventId}`;
  if (row === undefined) return (await wasDelivered(tx, run, eventId)) ? 'delivered' : 'unknown';
  if (row.state !== 'failed') return 'retrying';
  const started = await tx.all<Started>`
    update deliveries set kind = 'redelivery', state = 'retrying', attempt = 1, due_at = ${now},
      attempts_from = least(attempts_from, ${dayOf(now)}::int),
      attempts_to = greatest(attempts_to, ${dayOf(now)}::int)
    where tenant = ${tenant} and stream = ${stream} and event_id = ${eventId}
    returning event_id, "offset"`;
  await note(tx, run, started, now);
  return 'accepted';
}

/** Starts a new cycle for every failure that matches, batch by batch, and returns how many. */
export async function redeliverMany(
  tx: Queries,
  tenant: number,
  stream: string,
  filter: FailureFilter,
): Promise<number> {
  const [run, now] = await Promise.all([lockRun(tx, tenant, stream), storeNow(tx)]);
  if (run === undefined) return 0;
  const started = await tx.all<Started>`
    update deliveries set kind = 'redelivery', state = 'retrying', attempt = 1, due_at = ${now},
      attempts_from = least(attempts_from, ${dayOf(now)}::int),
      attempts_to = greatest(attempts_to, ${dayOf(now)}::int)
    where tenant = ${tenant} and stream = ${stream} and failed_at is not null and state = 'failed'
      and (${filter.types}::text[] is null or type = any(${filter.types}::text[]))
      and (${filter.from}::bigint is null or time >= ${filter.from})
      and (${filter.to}::bigint is null or time < ${filter.to})
    returning event_id, "offset"`;
  await note(tx, run, started, now);
  return started.length;
}

interface Started {
  readonly event_id: string;
  readonly offset: Offset | null;
}

async function note(
  tx: Queries,
  run: Run,
  started: readonly Started[],
  now: Millis,
): Promise<void> {
  if (started.length === 0) return;
  // The owner finds its rows at its next heartbeat at the latest.
  await noteChanges(tx, [run]);
  const attempt = { at: now, durationMs: 0, status: undefined, error: undefined } as const;
  await addAttempts(
    tx,
    started.map(({ event_id: id, offset }) => ({
      run,
      event: { id, offset: offset ?? undefined },
      attempt: { ...attempt, outcome: 'redelivered' },
    })),
  );
}
