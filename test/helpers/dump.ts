import pg from 'pg';
import { query } from './postgres.ts';
import { waitFor } from './wait.ts';

/** A session that reads every table, as pg_dump does. */
export interface Dump {
  /** Ends its transaction; throws if the session was lost before. */
  end(): Promise<void>;
}

/**
 * Begins a dump, and returns when its transaction is older than any of Leat: upkeep treats a younger
 * one as its own.
 */
export async function startDump(url: string): Promise<Dump> {
  const client = new pg.Client({ connectionString: url, application_name: 'dump' });
  // When the test fails, the server ends before this connection.
  client.on('error', () => undefined);
  await client.connect();
  await client.query('begin isolation level repeatable read, read only');
  await client.query(`
    do $$ declare names text; begin
      select string_agg('only ' || quote_ident(relname), ', ') into names from pg_class
        where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace;
      execute 'lock table ' || names || ' in access share mode';
    end $$`);
  await waitFor('the transaction to be old', async () => {
    const [row] = await query<{ old: boolean }>(
      url,
      `select bool_or(xact_start < clock_timestamp() - interval '1.1 s') as old
       from pg_stat_activity
       where application_name = 'dump' and datname = current_database()`,
    );
    return row?.old === true;
  });
  return {
    end: async () => {
      await client.query('commit');
      await client.end();
    },
  };
}
