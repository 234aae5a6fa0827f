import type { Millis } from '../../core/clock.ts';
import { isOfCodes, type ErrorCode } from '../../core/error-code.ts';
import { formatGroupKey, type GroupKey, type GroupSort, parseGroupKey } from '../../core/page.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { FailureGroup, FailureStore, GroupQuery } from '../port/failures.ts';
import { storedCode } from '../rows/failures.ts';
import { type Command, type On, sql, type Reads } from './command.ts';
import { Fragment, jsonOf, oneOf, piece } from './dialect.ts';
import { type FailureReader, type FailureRow, rowColumns } from './failures.ts';
import { storeNow } from './runs.ts';

interface Deps extends On {
  readonly failures: FailureReader;
}

/** Creates the query of failures by cause. Triggers of the engines keep the counters. */
export function createFailureGroups({ on: { lists }, failures }: Deps): FailureStore['groups'] {
  return (tenant, query) =>
    lists.bounded(async () => {
      const now = await lists.read(present());
      const { groups, total, next } = await page(lists, tenant, query);
      const found = await lists.read(samplesOf(tenant, groups, failures));
      const byGroup = new Map(found.map((row) => [nameOf(row), row]));
      const samples = groups.flatMap((group) => byGroup.get(nameOf(group)) ?? []);
      const errors = await failures.lastFailed(samples);
      const items = samples.map((row, index): FailureGroup => {
        const { stream, event_id: eventId, type: eventType, count } = row;
        const sample = { eventId, eventType, error: errors[index]?.error };
        const [firstFailedAt, lastFailedAt] = [row.first_failed_at, row.last_failed_at];
        const lastAttemptAt = row.last_attempt_at ?? lastFailedAt;
        const [code, times] = [
          storedCode(row.code),
          { firstFailedAt, lastFailedAt, lastAttemptAt },
        ];
        return { stream, code, count, ...times, sample };
      });
      return { items, total, next, now };
    });
}

function nameOf({ stream, code }: Pick<StoredGroup, 'stream' | 'code'>): string {
  return `${stream} ${code}`;
}

function* present(): Command<Millis> {
  return yield* storeNow();
}

interface StoredGroup extends Pick<GroupKey, 'stream' | 'code'> {
  readonly count: number;
  readonly last_attempt_at: Millis | null;
  readonly last_event: string | null;
}

interface GroupPage {
  readonly groups: readonly StoredGroup[];
  readonly total: number;
  readonly next: string | undefined;
}

/** Reads all groups, some at a time, and keeps those of the page. */
async function page(
  { read }: Reads,
  tenant: number,
  { streams, codes, after, take, sort = '-count' }: GroupQuery,
): Promise<GroupPage> {
  const isAfter = (one: StoredGroup, other: GroupKey): boolean => follows(keyOf(one, sort), other);
  const inOrder = (one: StoredGroup, other: StoredGroup): number =>
    isAfter(one, keyOf(other, sort)) ? 1 : isAfter(other, keyOf(one, sort)) ? -1 : 0;
  const former = after === undefined ? undefined : parseGroupKey(after);
  let best: StoredGroup[] = [];
  let total = 0;
  for (let last: StoredGroup | undefined; ;) {
    const rows = await read(groupsAfter(tenant, streams, last));
    const wanted = rows.filter(
      ({ code }) => codes === undefined || isOfCodes(code as ErrorCode, codes),
    );
    total += wanted.length;
    const rest = wanted.filter((row) => former === undefined || isAfter(row, former));
    best = [...best, ...rest].toSorted(inOrder).slice(0, take + 1);
    if (rows.length < stepMax) break;
    last = rows.at(-1);
    // A synchronous engine does not yield by itself.
    await yieldToEventLoop();
  }
  const groups = best.slice(0, take);
  const end = best.length > take ? groups.at(-1) : undefined;
  return { groups, total, next: end && formatGroupKey(keyOf(end, sort)) };
}

/** Groups that are read at once: some milliseconds. */
const stepMax = 2000;

function* groupsAfter(
  tenant: number,
  streams: GroupQuery['streams'],
  { stream, code }: Pick<GroupKey, 'stream' | 'code'> = { stream: '', code: '' },
): Command<StoredGroup[]> {
  return yield* sql.all<StoredGroup>`
    select stream, error_code as code, count, last_attempt_at, last_event from failure_groups
    where tenant = ${tenant} and (stream, error_code) > (${stream}, ${code})
      and (${streams === undefined} or stream ${oneOf(streams ?? [])})
    order by stream, error_code limit ${stepMax}`;
}

/** Returns the key of a group; those without an attempt that is known come last. */
function keyOf(
  { count, last_attempt_at: at, stream, code }: StoredGroup,
  sort: GroupSort,
): GroupKey {
  return { sort, value: sort === '-count' ? count : (at ?? 0), stream, code };
}

/** Returns whether a key follows another one of the same order. */
function follows(one: GroupKey, other: GroupKey): boolean {
  if (one.value !== other.value) return one.value < other.value;
  if (one.stream !== other.stream) return one.stream > other.stream;
  return one.code > other.code;
}

type SampleRow = FailureRow &
  StoredGroup & {
    readonly first_failed_at: Millis;
    readonly last_failed_at: Millis;
  };

/**
 * Reads the failure of each group that was attempted last, or else the newest one, and when the first and the
 * last one were opened: five searches each. They are materialized, as PostgreSQL without statistics of the table would search once for each failure.
 */
function* samplesOf(
  tenant: number,
  groups: readonly StoredGroup[],
  { columns }: FailureReader,
): Command<SampleRow[]> {
  if (groups.length === 0) return [];
  return yield* sql.all<SampleRow>`
    with g as materialized (
      select l.stream, l.code, l.count, (
          select min(f.failed_at) from deliveries f
          where f.tenant = ${tenant} and f.stream = l.stream and f.error_code = l.code
            and f.failed_at is not null) as first_failed_at, (
          select max(f.failed_at) from deliveries f
          where f.tenant = ${tenant} and f.stream = l.stream and f.error_code = l.code
            and f.failed_at is not null) as last_failed_at, (
          select t.last_attempt_at from failure_groups t
          where t.tenant = ${tenant} and t.stream = l.stream and t.error_code = l.code
          ) as last_attempt_at, (
          select a.event_id from deliveries a
          where a.tenant = ${tenant} and a.stream = l.stream and a.event_id = l.last_event
            and a.error_code = l.code and a.failed_at is not null) as attempted, (
          select n.event_id from deliveries n
          where n.tenant = ${tenant} and n.stream = l.stream and n.error_code = l.code
            and n.failed_at is not null
          order by n.failed_at desc, n.event_id desc limit 1) as newest
      from ${listedGroups(groups)} as l)
    select ${rowColumns} ${columns}, g.code, g.count, g.first_failed_at, g.last_failed_at,
      g.last_attempt_at
    from g
    -- SQLite takes a cross join in this order.
    cross join deliveries d
    where d.tenant = ${tenant} and d.stream = g.stream and d.event_id = coalesce(g.attempted, g.newest)`;
}

/** A table with the groups in the columns `stream`, `code`, `count` and `last_event`. */
function listedGroups(groups: readonly StoredGroup[]): Fragment {
  const [streams, codes] = [groups.map(({ stream }) => stream), groups.map(({ code }) => code)];
  const counts = groups.map(({ count }) => count);
  const events = groups.map(({ last_event: event }) => event ?? '');
  const rows = jsonOf(
    groups.map(({ stream, code, count }, at) => [stream, code, count, events[at]]),
  );
  return new Fragment({
    sqlite: piece`(
      select value ->> 0 as stream, value ->> 1 as code, value ->> 2 as count,
        value ->> 3 as last_event from json_each(${rows}))`,
    postgres: piece`(
      select * from unnest(${streams}::text[], ${codes}::text[], ${counts}::bigint[],
        ${events}::text[]) as u(stream, code, count, last_event))`,
  });
}
