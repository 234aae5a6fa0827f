import type pg from 'pg';

/**
 * Sessions of the server, and whether they are of this process alone. A pooler in transaction mode gives
 * each transaction any of its sessions, with all that other clients have set there: an empty
 * `search_path`, a `synchronous_commit` that is off, a temporary table with the name of one of ours.
 * There each transaction starts from the settings that the role has.
 */
export interface Sessions {
  /** Prepares the session of a new connection, and reads what the server says of itself. */
  prepare(client: pg.ClientBase, timeoutMs: number): Promise<SessionState>;
  /** True where other clients may use the same sessions. */
  areShared(): boolean;
  /** Records that a command failed in one session and succeeded in one with its own settings. */
  distrust(): void;
  /** Returns `text`, which begins a transaction, for a session that others may have altered. */
  cleaned(text: string): string;
  /** How often a session was found that others had altered. */
  readonly altered: number;
  /** The names of settings that others had left in sessions. */
  readonly foreign: ReadonlySet<string>;
}

export interface SessionState {
  /** The server follows another one. */
  readonly follows: boolean;
  readonly isReadOnly: boolean;
}

interface Found extends SessionState {
  readonly isShared: boolean;
  readonly foreign: readonly string[];
  readonly path: string;
}

/**
 * What statements rely on, whatever a role or a database has for its sessions. The driver sets the
 * encoding at the start.
 */
const needed = {
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  // A commit that no standby has confirmed is a warning.
  client_min_messages: 'warning',
  datestyle: 'ISO',
  default_transaction_isolation: 'read committed',
  extra_float_digits: '1',
  intervalstyle: 'postgres',
  standard_conforming_strings: 'on',
  transform_null_equals: 'off',
} as const;

/** Settings that poolers set for each client themselves, and the one that bounds the search for others. */
const unseen = [
  'application_name',
  'client_encoding',
  'datestyle',
  'standard_conforming_strings',
  'statement_timeout',
  'timezone',
];

const reset = 'reset session authorization; reset role; reset all';

const needs = Object.entries(needed);
const setLocally = needs.map(([name, value]) => `set local ${name} = '${value}'`).join('; ');

export function createSessions(): Sessions {
  const state = { isShared: false, altered: 0, path: '' };
  const foreign = new Set<string>();
  return {
    prepare: async (client, timeoutMs) => {
      const query: pg.QueryConfig & { query_timeout: number } = {
        text: preparing(client),
        query_timeout: timeoutMs,
      };
      const results: unknown = await client.query(query);
      const rows = (results as readonly pg.QueryResult[]).flatMap(
        (result) => result.rows as object[],
      );
      const found = Object.assign({}, ...rows) as Found;
      if (found.isShared) state.isShared = true;
      if (found.foreign.length > 0) state.altered += 1;
      for (const name of found.foreign) foreign.add(name);
      state.path = found.path;
      return found;
    },
    areShared: () => state.isShared,
    distrust: () => {
      state.isShared = true;
      state.altered += 1;
    },
    // A transaction of its own resets: whether one is read-only is known when it begins. Temporary
    // tables would come first unless the path says otherwise.
    cleaned: (text) => {
      const path = [state.path, 'pg_temp'].filter((part) => part !== '').join(', ');
      return `begin; ${reset}; commit; ${text}; ${setLocally}; set local search_path = ${path}`;
    },
    get altered() {
      return state.altered;
    },
    foreign,
  };
}

/**
 * A pooler has keys of its own for its clients. The settings of a session that is of this process
 * alone stay, others only last as long as the statement.
 */
function preparing(client: pg.ClientBase): string {
  const { processID } = client as pg.ClientBase & { readonly processID: number | null };
  const isShared = `pg_backend_pid() <> ${processID ?? 0}`;
  const settings = needs.map(([name, value]) => `set_config('${name}', '${value}', ${isShared})`);
  return `
    begin;
    set local statement_timeout = 0;
    select array(select pg_catalog.lower(name) from pg_catalog.pg_settings
      where source = 'session' and ${isShared}
        and pg_catalog.lower(name) <> all (array['${unseen.join(`', '`)}']) order by 1) as foreign;
    ${reset};
    commit;
    select ${isShared} as "isShared", pg_is_in_recovery() as follows,
      current_setting('transaction_read_only') = 'on' as "isReadOnly",
      current_setting('search_path') as path, ${settings.join(', ')}`;
}
