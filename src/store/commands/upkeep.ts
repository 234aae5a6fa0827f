import type { Millis } from '../../core/clock.ts';
import { hourMs } from '../../core/units.ts';
import type { UpkeepStore } from '../port/upkeep.ts';
import { type Command, type On, ServerOnly, sql } from './command.ts';
import { Fragment, perDialect, piece } from './dialect.ts';
import { horizonOf } from './horizon.ts';

/** Creates the commands of who leads the upkeep, and of what there is to prune. */
export function createUpkeepCommands({
  on: { commands },
}: On): Pick<UpkeepStore, 'lead' | 'resign' | 'tenantsToPrune'> {
  return {
    lead: (leader, leaseMs) => commands.transact('relaxed', () => lead(leader, leaseMs)),
    resign: async (leader) => {
      await commands.transact('relaxed', () => resign(leader));
    },
    tenantsToPrune: (query) => commands.read(tenantsToPrune(query)),
  };
}

/** The only process on a file leads. */
function* lead(leader: string, leaseMs: number): Command<boolean> {
  const taken = yield* new ServerOnly(sql.run`
    insert into upkeep as u (id, leader, lease_until)
    values (1, ${leader}, clock_timestamp() + ${leaseMs} * interval '1 ms')
    on conflict (id) do update
      set leader = excluded.leader, lease_until = excluded.lease_until
      where u.leader = excluded.leader or u.lease_until <= clock_timestamp()`);
  return taken !== 0;
}

function* resign(leader: string): Command<unknown> {
  return yield* new ServerOnly(sql.run`
    update upkeep set lease_until = clock_timestamp() where leader = ${leader}`);
}

interface TenantRow {
  readonly id: number;
  /** When its oldest event was published. */
  readonly oldest: Millis | null;
}

function* tenantsToPrune({
  olderThanMs,
  after,
  take,
}: Parameters<UpkeepStore['tenantsToPrune']>[0]): Command<
  Awaited<ReturnType<UpkeepStore['tenantsToPrune']>>
> {
  const before = yield* horizonOf(olderThanMs);
  const rows = yield* sql.all<TenantRow>`
    select id, ${oldestAt} as oldest from tenants t
    where id > ${after} ${isOld(before - Math.min(slackMs, olderThanMs / 24))}
    order by id limit ${take}`;
  const old = rows.filter(({ oldest }) => oldest !== null && oldest < before);
  return {
    tenants: old.map(({ id }) => id),
    next: rows.length < take ? undefined : rows.at(-1)?.id,
  };
}

const oldestAt = perDialect({
  sqlite: '(select published_at from events where tenant = t.id order by offset limit 1)',
  postgres: 'oldest_at',
});

/**
 * Only PostgreSQL keeps `oldest_at`, which {@link LogStore.prune} updates. Pruning a busy tenant every minute
 * would free nothing there, because days are removed as a whole: see {@link slackMs}.
 */
function isOld(before: Millis): Fragment {
  return new Fragment({
    sqlite: piece``,
    postgres: piece`and head > pruned_to and oldest_at < ${Math.floor(before)}`,
  });
}

/** Tenants whose events are older than the retention by less than this are left to a later call. */
const slackMs = hourMs;
