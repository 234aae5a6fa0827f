import type { Millis } from '../../core/clock.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { DeliveryState } from '../../core/types.ts';
import type { NewFailureWork } from '../port/failure-work.ts';
import type { FailureSelection } from '../port/failures.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import { type Command, type Commands, type Reads, sql, together } from './command.ts';
import { oneOf } from './dialect.ts';
import { hasCode, selects } from './failure-selection.ts';
import { storeNow } from './runs.ts';

/** Failures that are read at once: some milliseconds. */
export const stepMax = 500;

/** Failures that a request reads at most to count those that match: a tenth of a second. */
const countedMax = 50_000;

/** The failures of a request at its acceptance. */
export interface Counted {
  /** The selection, without failures that are opened later. */
  readonly selection: FailureSelection;
  /** In the order of their ids, those without a match left out. */
  readonly streams: readonly CountedStream[];
  /** Some streams have too many failures to count those that match; their total is 0. */
  readonly isAtLeast: boolean;
}

export interface CountedStream {
  readonly stream: string;
  readonly total: number;
}

interface Deps {
  readonly commands: Reads;
}

/**
 * Counts the open failures that match: by the counters of the store where these are enough, else by
 * reading the failures, some at a time with other work in between.
 */
export async function countFailures(
  { commands: { read } }: Deps,
  { tenant, streams: among, selection }: Omit<NewFailureWork, 'id' | 'createdBy'>,
): Promise<Counted> {
  const { present, newest, streams } = await read(openNow(tenant, among, selection.codes));
  const failedTo = Math.min(selection.failedTo ?? present, present);
  const bounded = { ...selection, failedTo };
  if (failedTo > newest && countsSuffice(selection)) {
    return { selection: bounded, streams, isAtLeast: false };
  }
  const counted: CountedStream[] = [];
  let left = countedMax;
  for (const { stream, open } of streams) {
    left -= open;
    if (left < 0) {
      counted.push({ stream, total: 0 });
      continue;
    }
    const total = await countOf(read, { tenant, stream }, bounded);
    if (total > 0) counted.push({ stream, total });
  }
  return { selection: bounded, streams: counted, isAtLeast: left < 0 };
}

/** Returns whether a selection has no filter but streams, codes and the end of the failures. */
function countsSuffice({ types, from, to, eventIds, failedFrom }: FailureSelection): boolean {
  return [types, from, to, eventIds, failedFrom].every((filter) => filter === undefined);
}

/** A stream by its counters: its open failures, and those with a code of the request. */
interface OpenStream extends CountedStream {
  readonly open: number;
}

/** Reads the counters of failures, and the instant that excludes later failures. */
function* openNow(
  tenant: number,
  among: readonly string[] | undefined,
  codes: readonly string[] | undefined,
): Command<{
  readonly present: Millis;
  readonly newest: Millis;
  readonly streams: readonly OpenStream[];
}> {
  const [now, last, streams] = yield* together(
    storeNow(),
    sql.get<{ at: Millis | null }>`
      select max(listed_at) as at from deliveries where tenant = ${tenant} and listed_at is not null`,
    sql.all<OpenStream>`
      select stream, cast(sum(count) as bigint) as open,
        cast(sum(case when ${hasCode(codes)} then count else 0 end) as bigint) as total
      from failure_groups d
      where tenant = ${tenant} and (${among === undefined} or stream ${oneOf(among ?? [])})
      group by stream order by stream`,
  );
  const newest = last?.at ?? 0;
  // The clock may have been set back since the newest failure was opened.
  const present = Math.max(Math.ceil(now), newest + 1);
  return { present, newest, streams: streams.filter(({ total }) => total > 0) };
}

async function countOf(
  read: Commands['read'],
  { tenant, stream }: { readonly tenant: number; readonly stream: string },
  selection: FailureSelection,
): Promise<number> {
  let total = 0;
  let after: FailureKey = firstKey;
  for (;;) {
    const rows = await read(openAfter({ tenant, stream }, after, selection));
    total += rows.filter(({ matches }) => matches === 1).length;
    const last = rows.at(-1);
    if (last === undefined || rows.length < stepMax) return total;
    after = last;
    // A synchronous engine does not yield by itself.
    await yieldToEventLoop();
  }
}

/** The place of an open failure among those of its stream. */
export interface FailureKey {
  readonly failedAt: Millis;
  readonly id: string;
}

/** Before the first failure. */
export const firstKey: FailureKey = { failedAt: 0, id: '' };

/** An open failure of a stream. */
export interface OpenFailure extends HistoryEvent, FailureKey {
  readonly state: DeliveryState;
  readonly attempt: number;
  readonly redelivery: string | null;
  /** 1 if the selection of the request has it. */
  readonly matches: number;
}

/** Reads the next open failures of a stream, oldest first, whether they match or not. */
export function* openAfter(
  { tenant, stream }: { readonly tenant: number; readonly stream: string },
  { failedAt, id }: FailureKey,
  selection: FailureSelection,
  take = stepMax,
): Command<OpenFailure[]> {
  return yield* sql.all<OpenFailure>`
    select d.event_id as id, d."offset", d.failed_at as "failedAt", d.state, d.attempt, d.redelivery,
      case when ${selects(selection)} then 1 else 0 end as matches
    from deliveries d
    where d.tenant = ${tenant} and d.stream = ${stream} and d.failed_at is not null
      and (d.failed_at, d.event_id) > (${failedAt}, ${id})
    order by d.failed_at, d.event_id limit ${take}`;
}
