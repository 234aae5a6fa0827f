import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

/** Shorter than any relevant wait for a lock. */
const pauseMs = 5;

/** Watches the locks of a database until `end` is called. */
export interface LockWatch {
  /** Returns each lock so far that publishing or delivering waited for, or would wait for. */
  found(): readonly string[];
  /** Returns all of them. */
  end(): Promise<readonly string[]>;
}

/**
 * Samples the locks of the program continuously: those that it waits for, also on partitions of days,
 * and those that it holds on whole tables and that exclude reading or writing. A partition that is
 * being detached is not counted: new statements do not use it. A wait for a ShareUpdateExclusiveLock
 * is not counted either: it waits for a vacuum, and nothing that reads or writes waits behind it.
 */
export async function watchLocks(url: string): Promise<LockWatch> {
  const client = new pg.Client({ connectionString: url });
  // When the test fails, the server ends before this connection.
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
  // A failure is reported at the end: until then nothing awaits it.
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
    and l.mode <> 'ShareUpdateExclusiveLock'
    and (
      c.relname in ('events', 'attempts', 'deliveries', 'tenants', 'runs', 'streams')
        and (not l.granted or l.mode in
          ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
      or i.inhparent in ('events'::regclass, 'attempts'::regclass) and not i.inhdetachpending
        and not l.granted)`;
