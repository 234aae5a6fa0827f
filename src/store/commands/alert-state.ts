import type { Millis } from '../../core/clock.ts';
import type { StreamStatus } from '../../core/types.ts';
import type {
  AlertStanding,
  AlertState,
  AlertStateStore,
  FailingStream,
  FailureWindow,
} from '../port/alert-state.ts';
import type { DisabledReason } from '../port/streams.ts';
import { type Command, sql, type On } from './command.ts';
import { listedNumbers } from './dialect.ts';

/** Creates the store of the reported alerts, and of the failures that alerts are about. */
export function createAlertStateStore({ on }: On): AlertStateStore {
  const { read, transact } = on.commands;
  return {
    last: (tenant) => read(last(tenant)),
    record: (tenant, after, state, mustLast) =>
      transact(mustLast ? 'durable' : 'relaxed', () => record(tenant, after, state)),
    failingStreams: (tenant, window) => read(failingStreams(tenant, window)),
    standings: (tenants) => read(standings(tenants)),
  };
}

function* last(tenant: number): Command<AlertState | undefined> {
  const row =
    yield* sql.get<AlertState>`select at, state from alert_states where tenant = ${tenant}`;
  return row && { at: row.at, state: row.state };
}

function* record(
  tenant: number,
  after: Millis | undefined,
  { at, state }: AlertState,
): Command<boolean> {
  const written =
    after === undefined
      ? yield* sql.run`
          insert into alert_states (tenant, at, state) values (${tenant}, ${at}, ${state})
          on conflict do nothing`
      : yield* sql.run`
          update alert_states set at = ${at}, state = ${state}
          where tenant = ${tenant} and at = ${after}`;
  return written > 0;
}

interface FailingStreamRow {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly consecutive: number;
  readonly total: number;
  readonly disabled_at: Millis | null;
  readonly disabled_reason: DisabledReason | null;
  readonly failed_within: boolean | number | null;
}

/** Without `exists`: PostgreSQL may plan that as a scan of the failures of all tenants. */
function* failingStreams(
  tenant: number,
  { since, upTo }: FailureWindow,
): Command<readonly FailingStream[]> {
  const rows = yield* sql.all<FailingStreamRow>`
    select s.id, s.name, s.status, r.consecutive_failures as consecutive,
      r.total_failures as total, s.disabled_at, s.disabled_reason, (
        select true from deliveries d
        where d.tenant = s.tenant and d.stream = s.id
          and d.failed_at > ${since} and d.failed_at <= ${upTo}
        order by d.failed_at desc limit 1) as failed_within
    from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
    where s.tenant = ${tenant} and (r.total_failures > 0 or r.consecutive_failures > 0
      or (s.disabled_at > ${since} and s.disabled_at <= ${upTo}))
    order by s.id`;
  return rows.map(({ id, name, status, consecutive, total, failed_within, ...row }) => ({
    id,
    name,
    status,
    health: { consecutive, total },
    disabledAt: row.disabled_at ?? undefined,
    disabledReason: row.disabled_reason ?? undefined,
    failedWithin: Boolean(failed_within),
  }));
}

interface StandingRow {
  readonly tenant: number;
  readonly at: Millis | null;
  readonly state: string | null;
  readonly failing: boolean | number | null;
}

/** Without `exists`: PostgreSQL may plan that as a scan of the streams of all tenants. */
function* standings(tenants: readonly number[]): Command<readonly AlertStanding[]> {
  const rows = yield* sql.all<StandingRow>`
    select listed.value as tenant, l.at, l.state, (
      select true from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
      where s.tenant = listed.value and (r.total_failures > 0 or r.consecutive_failures > 0
        or s.disabled_at is not null)
      limit 1) as failing
    from ${listedNumbers(tenants)} left join alert_states l on l.tenant = listed.value`;
  const rowsByTenant = new Map(rows.map((row) => [row.tenant, row]));
  return tenants.map((tenant) => standingOf(rowsByTenant.get(tenant)));
}

function standingOf(row: StandingRow | undefined): AlertStanding {
  const { at = null, state = null, failing } = row ?? {};
  const isKnown = at !== null && state !== null;
  return { last: isKnown ? { at, state } : undefined, mayBeFailing: Boolean(failing) };
}
