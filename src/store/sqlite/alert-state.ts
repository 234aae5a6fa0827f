import type { AlertState, AlertStateStore } from '../port/alert-state.ts';
import {
  type StandingRow,
  standingOf,
  failingStreamOf,
  type FailingStreamRow,
} from '../rows/failing-streams.ts';
import type { Database } from './database.ts';

/** What operators were told. */
export function createAlertStateStore({ db }: { readonly db: Database }): AlertStateStore {
  return {
    last: async (tenant) => {
      const row = db.get<AlertState>`select at, state from looks where tenant = ${tenant}`;
      return row && { at: row.at, state: row.state };
    },
    record: async (tenant, after, look, mustLast) =>
      db.transact(mustLast ? 'durable' : 'relaxed', () => record(db, tenant, after, look)),
    failingStreams: async (tenant, { since, upTo }) => {
      const rows = db.all<FailingStreamRow>`
        select s.id, s.name, s.status, r.consecutive_failures as consecutive,
          r.total_failures as total, s.disabled_at, exists (
            select 1 from deliveries d
            where d.tenant = s.tenant and d.stream = s.id
              and d.failed_at > ${since} and d.failed_at <= ${upTo}) as failed_within
        from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
        where s.tenant = ${tenant} and (r.total_failures > 0 or r.consecutive_failures > 0
          or (s.disabled_at > ${since} and s.disabled_at <= ${upTo}))
        order by s.id`;
      return rows.map(failingStreamOf);
    },
    standings: async (tenants) => {
      const rows = db.all<StandingRow>`
        select l.at, l.state, exists (
          select 1 from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
          where s.tenant = t.value and (r.total_failures > 0 or r.consecutive_failures > 0
            or s.disabled_at is not null)) as troubled
        from json_each(${JSON.stringify(tenants)}) t left join looks l on l.tenant = t.value
        order by t.key`;
      return rows.map(standingOf);
    },
  };
}

function record(
  db: Database,
  tenant: number,
  after: number | undefined,
  { at, state }: AlertState,
): boolean {
  if (after === undefined) {
    return (
      db.run`
        insert into looks (tenant, at, state) values (${tenant}, ${at}, ${state})
        on conflict do nothing` > 0
    );
  }
  return (
    db.run`
      update looks set at = ${at}, state = ${state} where tenant = ${tenant} and at = ${after}` > 0
  );
}
