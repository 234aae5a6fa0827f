import type { AlertState, AlertStateStore } from '../port/alert-state.ts';
import {
  type StandingRow,
  standingOf,
  failingStreamOf,
  type FailingStreamRow,
} from '../rows/failing-streams.ts';
import { numbers, type Database } from './database.ts';

/** What operators were told. */
export function createAlertStateStore({ db }: { readonly db: Database }): AlertStateStore {
  return {
    last: (tenant) => db.get<AlertState>`select at, state from looks where tenant = ${tenant}`,
    record: (tenant, after, look, mustLast) =>
      db.transact(mustLast ? 'durable' : 'relaxed', async (tx) => {
        const { at, state } = look;
        const written =
          after === undefined
            ? await tx.run`
                insert into looks (tenant, at, state) values (${tenant}, ${at}, ${state})
                on conflict do nothing`
            : await tx.run`
                update looks set at = ${at}, state = ${state}
                where tenant = ${tenant} and at = ${after}`;
        return written > 0;
      }),
    // Not `exists`: that may be planned as a scan of the failures of all tenants.
    failingStreams: async (tenant, { since, upTo }) => {
      const rows = await db.all<FailingStreamRow>`
        select s.id, s.name, s.status, r.consecutive_failures as consecutive,
          r.total_failures as total, s.disabled_at, (
            select true from deliveries d
            where d.tenant = s.tenant and d.stream = s.id
              and d.failed_at > ${since} and d.failed_at <= ${upTo}
            order by d.failed_at desc limit 1) as failed_within
        from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
        where s.tenant = ${tenant} and (r.total_failures > 0 or r.consecutive_failures > 0
          or (s.disabled_at > ${since} and s.disabled_at <= ${upTo}))
        order by s.id`;
      return rows.map(failingStreamOf);
    },
    // Not `exists`: that may be planned as a scan of the streams of all tenants.
    standings: async (tenants) => {
      const rows = await db.all<StandingRow>`
        select l.at, l.state, (
          select true from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
          where s.tenant = ask.tenant and (r.total_failures > 0 or r.consecutive_failures > 0
            or s.disabled_at is not null)
          limit 1) as troubled
        from unnest(${numbers(tenants)}::int[]) with ordinality as ask(tenant, n)
        left join looks l on l.tenant = ask.tenant
        order by ask.n`;
      return rows.map(standingOf);
    },
  };
}
