import pg from 'pg';
import { waitFor } from './wait.ts';

/** What somebody else may leave behind in the sessions of a pooler, each by one statement. */
export const strangersSettings = [
  `set search_path = ''`,
  'set bytea_output = escape',
  'set default_transaction_read_only = on',
  'set array_nulls = off',
  'set default_transaction_isolation = serializable',
  'set statement_timeout = 50',
  'set client_encoding = latin1',
  'set role pg_monitor',
  `set DateStyle = 'SQL, DMY'`,
  'set standard_conforming_strings = off',
  'set transform_null_equals = on',
  'create temp table events (id text); create temp table tenants (id text)',
] as const;

/**
 * Runs a statement in every session that the pooler behind `url` has, as a client that does not know
 * that others use them, too.
 */
export async function alterSessions(
  url: string,
  sessions: number,
  statement: string,
): Promise<void> {
  const altered = new Set<number>();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    // A pooler may open them one after the other.
    await waitFor(
      `${sessions} sessions to take ${statement}`,
      async () => {
        // One message, which one session receives as a whole. A temporary table is there already the
        // second time.
        const text = `${statement}; select pg_backend_pid() as pid`;
        const results: unknown = await client.query(text).catch(() => []);
        const last = (results as readonly pg.QueryResult<{ pid: number }>[]).at(-1);
        for (const { pid } of last?.rows ?? []) altered.add(pid);
        return altered.size >= sessions;
      },
      { progress: () => altered.size, intervalMsFirst: 0 },
    );
  } finally {
    await client.end();
  }
}
