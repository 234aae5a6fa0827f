import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

/** Shorter than any wait for a lock that is worth a word. */
const pauseMs = 5;

/** Watches a database until told to end. */
export interface LockWatch {
  /** Each lock so far that publishing or delivering waited for, or would have to wait for. */
  found(): readonly string[];
  /** Returns all of them. */
  end(): Promise<readonly string[]>;
}

/**
 * Samples the locks of the program all the time: those that it waits for, also on single days, and
 * those that it holds on whole tables and that exclude reading or writing. A day that is being
 * detached is not counted: no new statement finds it.
 */
export async function watchLocks(url: string): Promise<LockWatch> {
  const client = new pg.Client({ connectionString: url });
  // Where the test fails it is still there when the server ends.
  client.on('error', () => undefined);
  await client.connect();
  const found = new Set<string>();
  const ending = new AbortController();
  const sample = async (): Promise<void> => {
    for (let samples = 0; !ending.signal.aborted || samples < 3; samples += 1) {
      const { rows } = await client.query<{ lock: string }>(sampled);
      for (const { lock } of rows) found.add(lock);
      await sleep(pauseMs);
    }
  };
  // A failure is reported at the end: until then nobody awaits it.
  const watched = sample().then(
    () => undefined,
    (error: unknown) => error,
  );
  return {
    found: () => [...found],
    end: async () => {
      ending.abort();
      const failure = await watched;
      await client.end();
      if (failure !== undefined) throw new Error('The watch failed.', { cause: failure });
      return [...found];
    },
  };
}

const sampled = `
  select distinct
    c.relname || ' ' || l.mode || case when l.granted then '' else ' waiting' end
      || ': ' || left(regexp_replace(a.query, '\\s+', ' ', 'g'), 80) as lock
  from pg_locks l
  join pg_stat_activity a on a.pid = l.pid
  join pg_class c on c.oid = l.relation
  left join pg_inherits i on i.inhrelid = c.oid
  where a.application_name = 'leat' and a.datname = current_database()
    and l.locktype = 'relation'
    and (
      c.relname in ('events', 'attempts', 'deliveries', 'tenants', 'runs', 'streams')
        and (not l.granted or l.mode in
          ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
      or i.inhparent in ('events'::regclass, 'attempts'::regclass) and not i.inhdetachpending
        and not l.granted)`;
