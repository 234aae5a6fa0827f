import { streamKeyOf } from '../../core/stream-key.ts';
import { changedAfter, differWithin } from '../../core/subscription.ts';
import type { StreamRef, Subscription } from '../../core/types.ts';
import type { CursorRaise, KnownStream, OwnedStream, TakenEvents } from '../port/ownership.ts';
import { type Command, sql } from './command.ts';
import { lockRun } from './runs.ts';

/** Returns the streams of which the owner took events by other subscriptions than apply to them now. */
export function takenByOthers(
  found: readonly OwnedStream[],
  known: readonly KnownStream[],
): readonly (KnownStream & { readonly taken: TakenEvents })[] {
  const byKey = new Map(known.map((one) => [streamKeyOf(one), one.taken]));
  return found.flatMap(({ stream, cursor }) => {
    const ref = { tenant: stream.tenant, stream: stream.id };
    const taken = byKey.get(streamKeyOf(ref));
    return taken !== undefined && tookOthers({ ...stream, cursor }, taken) ? { ...ref, taken } : [];
  });
}

interface Present {
  readonly version: number;
  readonly cursor: number;
  readonly subscriptions: readonly Subscription[];
}

function tookOthers({ version, cursor, subscriptions }: Present, taken: TakenEvents): boolean {
  if (version === taken.version) return false;
  return differWithin(taken.subscriptions, subscriptions, { after: cursor, upTo: taken.upTo });
}

/**
 * Lets changes of the subscriptions apply after the events that the owner had taken before it read them.
 * What it sent of those counts, and is not sent again. Returns the version that they agree with.
 */
export function* keepTaken({ tenant, stream }: StreamRef, taken: TakenEvents): Command<number> {
  const run = yield* lockRun(tenant, stream);
  const row = yield* sql.get<{ subscriptions: string }>`
    select subscriptions from streams where tenant = ${tenant} and id = ${stream}`;
  if (run?.epoch !== taken.epoch || row === undefined) return taken.version;
  const subscriptions = JSON.parse(row.subscriptions) as Subscription[];
  if (!tookOthers({ ...run, subscriptions }, taken)) return run.version;
  const after = changedAfter(subscriptions, taken);
  // Subscriptions are kept in memory by their version.
  const version = run.version + 1;
  yield* sql.run`
    update streams set subscriptions = ${JSON.stringify(after)}, version = ${version}
    where tenant = ${tenant} and id = ${stream}`;
  return version;
}

/**
 * Returns the cursor with which an owner releases a stream of a version that it did not know: events after those that it
 * has taken are filtered again.
 */
export function yieldedRaise(raise: CursorRaise, taken: TakenEvents, version: number): CursorRaise {
  if (version === raise.version) return raise;
  return { ...raise, version, cursor: Math.min(raise.cursor, taken.upTo) };
}
