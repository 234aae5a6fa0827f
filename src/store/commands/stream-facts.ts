import type { Millis } from '../../core/clock.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { DeliveryKind, Offset, StreamStatus } from '../../core/types.ts';
import type { DisabledReason, StreamFacts, StreamStore, WaitingEvents } from '../port/streams.ts';
import { mayBeSent, sendingOf } from '../rules/pause.ts';
import { type Command, type On, type Reads, sql, together } from './command.ts';
import { byDue, byState } from './delivery-indexes.ts';
import { oneOf } from './dialect.ts';
import { LogTypes, type Offsets, type Wanted } from './log-types.ts';
import { rowsAbove, waitingMax, withSubscriptions } from './log-waiting.ts';
import { overdueSince } from './overdue.ts';
import type { ReadCache } from './read-cache.ts';
import { headOf, oldestAfter } from './runs.ts';

export interface FactsDeps extends On {
  readonly readCache: ReadCache;
}

/** Creates the queries of what the store knows of streams beyond their configuration. */
export function createStreamFacts(
  deps: FactsDeps,
): Pick<StreamStore, 'facts' | 'factsOf' | 'retrying'> {
  const { lists } = deps.on;
  const listing = { ...deps, commands: lists };
  const factsOf: StreamStore['factsOf'] = (tenant, ids) =>
    lists.bounded(async () => {
      const kept = deps.readCache.present;
      const ends = await lists.read(endsOf(tenant));
      const log = new LogTypes({ ...listing, kept }, tenant, ends);
      const streams: ReadStream[] = [];
      for (const some of partsOf(ids)) {
        streams.push(...(await lists.read(readFacts(tenant, some))));
        await yieldToEventLoop();
      }
      const waiting = await waitingOf(lists, tenant, log, streams);
      return new Map(
        streams.map(({ row, facts }) => [
          row.id,
          { ...facts, waiting: waiting.get(row.id) ?? nothing },
        ]),
      );
    });
  return {
    factsOf,
    facts: async (tenant, id) => (await factsOf(tenant, [id])).get(id),
    retrying: (tenant) => lists.read(retrying(tenant)),
  };
}

const nothing: WaitingEvents = { count: 0, atLeast: false, oldestAt: undefined };

interface FactsRow {
  readonly id: string;
  readonly status: StreamStatus;
  readonly paused_at: Millis | null;
  readonly disabled_reason: DisabledReason | null;
  readonly disabled_since: Millis | null;
  readonly disabled_code: string | null;
  readonly cursor: Offset;
  readonly consecutive: number;
  readonly total: number;
  readonly last_delivered_at: Millis | null;
  readonly last_failed_at: Millis | null;
  readonly failing_since: Millis | null;
  readonly refused_at: Millis | null;
  readonly refused_code: string | null;
  readonly now: Millis;
  readonly replay: string | null;
}

/** Of one kind of deliveries of a stream. */
interface RowCounts {
  readonly id: string;
  readonly kind: DeliveryKind;
  readonly retrying: number;
  readonly parked: number;
  readonly oldest_due_at: Millis | null;
  readonly parked_until: Millis | null;
  readonly retry_at: Millis | null;
}

interface ReadStream {
  readonly row: FactsRow;
  readonly facts: Omit<StreamFacts, 'waiting'>;
  readonly withRow: Wanted['withRow'];
}

function* endsOf(tenant: number): Command<Offsets> {
  const [from, upTo] = yield* together(oldestAfter(tenant, 0), headOf(tenant));
  return { from, upTo };
}

/** Streams of one statement: SQLite reads over their types, and 1,000 take a tenth of a millisecond. */
const streamsPerRead = 50;

/** Returns the ids in their order, in parts. */
function partsOf(ids: readonly string[]): string[][] {
  const sorted = ids.toSorted();
  return Array.from({ length: Math.ceil(ids.length / streamsPerRead) }, (_, part) =>
    sorted.slice(part * streamsPerRead, (part + 1) * streamsPerRead),
  );
}

function* readFacts(tenant: number, ids: readonly string[]): Command<ReadStream[]> {
  const [rows, counts] = yield* together(
    sql.all<FactsRow>`
      select s.id, s.status, s.paused_at, s.disabled_reason, s.disabled_since,
        s.disabled_code, r.cursor, r.consecutive_failures as consecutive,
        r.total_failures as total, r.last_delivered_at, r.last_failed_at,
        r.failing_since,
        r.refused_at, r.refused_code, leat_now() as now, (
          select p.id from replays p
          where p.tenant = s.tenant and p.stream = s.id and p.status = 'running') as replay
      from streams s
      join runs r on r.tenant = s.tenant and r.stream = s.id
      where s.tenant = ${tenant} and s.id ${oneOf(ids)} order by s.id`,
    sql.all<RowCounts>`
      select s.id, d.kind, count(*) filter (where d.state = 'retrying') as retrying,
        count(*) filter (where d.state = 'parked') as parked,
        min(d.due_at) as oldest_due_at,
        min(d.due_at) filter (where d.state = 'parked') as parked_until,
        min(d.due_at) filter (where d.state = 'retrying') as retry_at
      -- SQLite takes a cross join in this order.
      from streams s cross join deliveries d ${byDue}
      where s.tenant = ${tenant} and s.id ${oneOf(ids)}
        and d.tenant = s.tenant and d.stream = s.id and d.due_at is not null
      group by s.id, d.kind`,
  );
  const above = yield* rowsAbove(tenant, rows);
  const countsOf = Map.groupBy(counts, ({ id }) => id);
  return rows.map((row) => ({
    row,
    facts: factsOfRow(row, countsOf.get(row.id) ?? []),
    withRow: above(row.id),
  }));
}

function factsOfRow(row: FactsRow, counts: readonly RowCounts[]): ReadStream['facts'] {
  const sending = sendingOf({ status: row.status, pausedAt: row.paused_at });
  const sent = counts.filter(({ kind }) => mayBeSent(kind, sending));
  return {
    now: row.now,
    health: { consecutive: row.consecutive, total: row.total },
    disabled: {
      reason: row.disabled_reason ?? undefined,
      since: row.disabled_since ?? undefined,
      code: row.disabled_code ?? undefined,
    },
    retrying: counts.reduce((sum, { retrying: waiting }) => sum + waiting, 0),
    parked: counts.reduce((sum, { parked }) => sum + parked, 0),
    parkedUntil: earliest(counts.map((each) => each.parked_until)),
    nextDueAt: earliest(sent.map((each) => each.retry_at)),
    lastDeliveredAt: row.last_delivered_at ?? undefined,
    lastFailedAt: row.last_failed_at ?? undefined,
    failingSince: row.failing_since ?? undefined,
    overdueSince: overdueSince(
      earliest(counts.map((each) => each.oldest_due_at)),
      row.last_delivered_at,
    ),
    refused:
      row.refused_at === null
        ? undefined
        : { since: row.refused_at, code: row.refused_code ?? 'unknown' },
    replay: row.replay ?? undefined,
  };
}

function earliest(instants: readonly (Millis | null)[]): Millis | undefined {
  const known = instants.filter((at) => at !== null);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** Events that are read to count what waits for those of a page that are far behind: 3 ms on SQLite. */
const farEventsMax = 12_288;

/** Streams whose events are counted before other work has a turn: a millisecond at most. */
const countedAtOnce = 8;

/**
 * Counts the events that wait. Streams whose next 10,000 events reach the head share them; the others
 * share a bounded number of events, but whether an active one lags is searched in all 10,000.
 */
async function waitingOf(
  commands: Reads,
  tenant: number,
  log: LogTypes,
  streams: readonly ReadStream[],
): Promise<ReadonlyMap<string, WaitingEvents>> {
  const ranged = rangedOf(log, streams);
  await log.read(log.missing(ranged.map(({ range }) => range)));
  const waiting = new Map<string, WaitingEvents>();
  for await (const part of withSubscriptions(commands, tenant, ranged)) {
    for (const [{ id, whole, range, isActive, isFar, withRow }, subscriptions] of part) {
      const wanted = { subscriptions, withRow };
      const known = log.firstAt(wanted, range);
      const rest = known === undefined && isActive ? whole : range;
      if (rest !== range) await log.read(log.missing([rest]));
      waiting.set(id, {
        count: log.count(wanted, rest),
        atLeast: isFar,
        oldestAt: known ?? log.firstAt(wanted, rest),
      });
      if (waiting.size % countedAtOnce === 0) await yieldToEventLoop();
    }
  }
  return waiting;
}

/** A stream, and the events after its cursor. */
interface Ranged extends Pick<ReadStream, 'withRow'> {
  readonly id: string;
  readonly isActive: boolean;
  /** Whether there are further events after the next 10,000. */
  readonly isFar: boolean;
  /** The next 10,000 events at most. */
  readonly whole: Offsets;
  /** Those of them that are counted in any case. */
  readonly range: Offsets;
}

function rangedOf(log: LogTypes, streams: readonly ReadStream[]): Ranged[] {
  const all = streams.map(({ row: { id, status, paused_at: pausedAt, cursor }, withRow }) => {
    const whole = log.after(cursor, waitingMax);
    const isFar = log.after(cursor).upTo > whole.upTo;
    const isActive = status === 'enabled' && pausedAt === null;
    return { id, cursor, isActive, isFar, whole, withRow };
  });
  const far = all.filter(({ isFar }) => isFar).length;
  const share = Math.min(waitingMax, Math.floor(farEventsMax / Math.max(far, 1)));
  return all.map(({ cursor, ...each }) => ({
    ...each,
    range: each.isFar ? log.after(cursor, share) : each.whole,
  }));
}

/** Deliveries that are counted: some milliseconds. */
const retryingMax = 100_000;

function* retrying(tenant: number): Command<number> {
  const row = yield* sql.get<{ count: number }>`
    select count(*) as count from (
      select 1 from deliveries ${byState}
      where tenant = ${tenant} and state = 'retrying' and due_at is not null
      limit ${retryingMax}) as waiting`;
  return row?.count ?? 0;
}
