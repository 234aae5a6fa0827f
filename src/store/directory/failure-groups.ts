import type { Millis } from '../../core/clock.ts';
import { isOfCodes, type ErrorCode } from '../../core/error-code.ts';
import { formatGroupKey, type GroupKey, parseGroupKey } from '../../core/page.ts';
import type { FailureGroup, FailureStore, GroupQuery } from '../port/failures.ts';
import { storedCode } from '../rows/failures.ts';
import { type Command, type Commands, sql } from './command.ts';
import { Fragment, jsonOf, oneOf, piece } from './dialect.ts';
import { type FailureReader, type FailureRow, rowColumns } from './failures.ts';
import type { Runs } from './runs.ts';

interface Deps {
  readonly commands: Commands;
  readonly failures: FailureReader;
  readonly runs: Pick<Runs, 'now'>;
}

/** Creates the query of failures by cause. Triggers of the engines keep the counters. */
export function createFailureGroups({ commands, failures, runs }: Deps): FailureStore['groups'] {
  return async (tenant, query) => {
    const { groups, total, next, now } = await commands.read(page(runs, tenant, query));
    const samples = await commands.read(samplesOf(tenant, groups, failures));
    const errors = await failures.lastFailed(samples);
    const items = samples.map((row, index): FailureGroup => {
      const { stream, event_id: eventId, type: eventType, code, count } = row;
      const sample = { eventId, eventType, error: errors[index]?.error };
      const [firstFailedAt, lastFailedAt] = [row.first_failed_at, row.failed_at];
      return { stream, code: storedCode(code), count, firstFailedAt, lastFailedAt, sample };
    });
    return { items, total, next, now };
  };
}

/** Reads all groups of a tenant: their number is bounded by those of streams and codes. */
function* page(
  runs: Deps['runs'],
  tenant: number,
  { streams, codes, after, take }: GroupQuery,
): Command<{
  readonly groups: readonly GroupKey[];
  readonly total: number;
  readonly next: string | undefined;
  readonly now: Millis;
}> {
  const now = yield* runs.now();
  const rows = yield* sql.all<GroupKey>`
    select stream, error_code as code, count from failure_groups
    where tenant = ${tenant} and (${streams === undefined} or stream ${oneOf(streams ?? [])})
    order by count desc, stream, error_code`;
  const wanted =
    codes === undefined ? rows : rows.filter(({ code }) => isOfCodes(code as ErrorCode, codes));
  const former = after === undefined ? undefined : parseGroupKey(after);
  const rest = former === undefined ? wanted : wanted.filter((row) => isAfter(row, former));
  const groups = rest.slice(0, take);
  const last = rest.length > take ? groups.at(-1) : undefined;
  return { groups, total: wanted.length, next: last && formatGroupKey(last), now };
}

/** Returns whether a group follows another one in the order of the list. */
function isAfter(one: GroupKey, other: GroupKey): boolean {
  if (one.count !== other.count) return one.count < other.count;
  if (one.stream !== other.stream) return one.stream > other.stream;
  return one.code > other.code;
}

type SampleRow = FailureRow & GroupKey & { readonly first_failed_at: Millis };

/** Reads the newest failure of each group, and when the first one was opened: two searches each. */
function* samplesOf(
  tenant: number,
  groups: readonly GroupKey[],
  { columns }: FailureReader,
): Command<SampleRow[]> {
  if (groups.length === 0) return [];
  return yield* sql.all<SampleRow>`
    select ${rowColumns} ${columns}, g.code, g.count, (
        select min(f.failed_at) from deliveries f
        where f.tenant = ${tenant} and f.stream = g.stream and f.error_code = g.code
          and f.failed_at is not null) as first_failed_at
    from ${listedGroups(groups)} as g
    -- SQLite takes a cross join in this order.
    cross join deliveries d
    where d.tenant = ${tenant} and d.stream = g.stream and d.event_id = (
      select n.event_id from deliveries n
      where n.tenant = ${tenant} and n.stream = g.stream and n.error_code = g.code
        and n.failed_at is not null
      order by n.failed_at desc, n.event_id desc limit 1)
    order by g.count desc, g.stream, g.code`;
}

/** A table with the groups in the columns `stream`, `code` and `count`. */
function listedGroups(groups: readonly GroupKey[]): Fragment {
  const [streams, codes] = [groups.map(({ stream }) => stream), groups.map(({ code }) => code)];
  const counts = groups.map(({ count }) => count);
  const rows = jsonOf(groups.map(({ stream, code, count }) => [stream, code, count]));
  return new Fragment({
    sqlite: piece`(
      select value ->> 0 as stream, value ->> 1 as code, value ->> 2 as count from json_each(${rows}))`,
    postgres: piece`(
      select * from unnest(${streams}::text[], ${codes}::text[], ${counts}::bigint[])
        as u(stream, code, count))`,
  });
}
