import type { Store } from '../../src/store/port/store.ts';
import type { StoreTime } from '../../src/store/port/time.ts';
import { query } from '../helpers/postgres.ts';
import type { TestTime } from './contract/engine.ts';

/** The time of the store: the same in every store of a test. */
export function createTestTime(startMillis: number): TestTime & StoreTime {
  let current = startMillis;
  return {
    get at() {
      return current;
    },
    set at(to) {
      current = to;
    },
    now: () => current,
    skewMs: () => 0,
    skews: 0,
  };
}

/**
 * Replaces the server's clock with one that tests set, for the instants of one database: leases use
 * the server's own. For a database that is a template of others, too.
 */
export async function plantClock(url: string): Promise<void> {
  await query(
    url,
    `create table test_time (ms bigint not null);
     insert into test_time values (0);
     create or replace function leat_now() returns bigint language sql volatile parallel safe
       begin atomic
         select case when ms = 0 then floor(extract(epoch from clock_timestamp()) * 1000)::bigint
           else ms end from test_time;
       end`,
  );
}

/** Returns the store with its clock set before each command that needs it. */
export function withClock(store: Store, url: string, time: TestTime): Store {
  let written: number | undefined;
  /** Commands that arrive meanwhile wait for it, too. */
  let writing: Promise<unknown> = Promise.resolve();
  const set = async (): Promise<void> => {
    if (written !== time.at) {
      const { at } = time;
      written = at;
      writing = writing.then(() => query(url, `update test_time set ms = ${at}`));
    }
    await writing;
  };
  const timed = <Part extends object>(part: Part): Part =>
    Object.fromEntries(
      Object.entries(part).map(([name, method]) => [
        name,
        async (...args: unknown[]) => {
          await set();
          return (method as (...given: unknown[]) => unknown)(...args);
        },
      ]),
    ) as Part;
  return {
    ...store,
    log: timed(store.log),
    streams: timed(store.streams),
    deliveries: timed(store.deliveries),
    dismissals: timed(store.dismissals),
    replays: timed(store.replays),
    ownership: timed(store.ownership),
    clients: timed(store.clients),
    users: timed(store.users),
    tenants: timed(store.tenants),
    upkeep: timed(store.upkeep),
    deliveryStats: timed(store.deliveryStats),
    auditLog: timed(store.auditLog),
    consoleSessions: timed(store.consoleSessions),
    time: { now: () => time.at, skewMs: () => 0, skews: 0 },
  };
}
