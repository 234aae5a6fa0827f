import { createDatabase, type Database, type DatabaseOptions } from './database.ts';
import type { Hosts } from './hosts.ts';
import { ownVersion, schemaState } from './schema.ts';
import { createSchemaGuard, type SchemaGuard } from './schema-guard.ts';

/**
 * Connections by purpose: none waits for what another one does. With one pool for everything a
 * handful of slow lists would take every connection, and with them publishing and the lease.
 */
export interface Pools extends Readonly<Record<Purpose, Database>> {
  /** Checks with the connection of the lease. */
  readonly guard: SchemaGuard;
  close(): Promise<void>;
}

/**
 * `lease`: join, heartbeat, leave. `publishing`: append. `delivering`: claim and settle. `log`: read
 * events and heads. `commands`: changes and look-ups of single rows, upkeep, wake-ups. `lists`: pages
 * of the management API.
 */
export type Purpose = (typeof purposes)[number];

const purposes = ['lease', 'publishing', 'delivering', 'log', 'commands', 'lists'] as const;

/** One connection for each purpose, and the one that listens. */
const connectionsMin = purposes.length + 1;

/** Which purposes connections beyond one each go to, in turns. A heartbeat needs no second one. */
const turns = ['publishing', 'delivering', 'log', 'commands', 'lists', 'publishing', 'delivering'];

/**
 * A list is answered or refused within the sum of both times. Any client may ask for lists; those of
 * one that asks for too many are the first to be refused.
 */
const listBounds = { statementMs: 3000, waitMs: 2000, waitingMax: 64 };

/** How many connections each purpose has, of `total` with the one that listens. */
export function sharesOf(total: number): Record<Purpose, number> {
  const shares = Object.fromEntries(purposes.map((purpose) => [purpose, 1]));
  for (let extra = 0; extra < total - connectionsMin; extra += 1) {
    const purpose = turns[extra % turns.length] ?? '';
    shares[purpose] = (shares[purpose] ?? 0) + 1;
  }
  return shares as Record<Purpose, number>;
}

export function createPools(
  options: Omit<DatabaseOptions, 'connectionsMax' | 'bounds' | 'mend' | 'guard'> & {
    readonly hosts: Hosts;
    /** Of this process, the one that listens included; at least `connectionsMin`. */
    readonly connectionsMax: number;
    /** Makes what a statement missed, with the pool for commands. */
    readonly mend: (db: Database, error: unknown) => Promise<boolean>;
  },
): Pools {
  const { hosts, connectionsMax, mend } = options;
  const shares = sharesOf(connectionsMax);
  const lease = createDatabase({ hosts, connectionsMax: shares.lease });
  const guard = createSchemaGuard({ own: ownVersion(), read: () => schemaState(lease) });
  const commands: Database = createDatabase({
    hosts,
    connectionsMax: shares.commands,
    guard,
    mend: (error) => mend(commands, error),
  });
  const open = (purpose: Purpose, bounds?: DatabaseOptions['bounds']): Database =>
    createDatabase({
      hosts,
      bounds,
      guard,
      connectionsMax: shares[purpose],
      mend: (error) => mend(commands, error),
    });
  const pools = {
    lease,
    publishing: open('publishing'),
    delivering: open('delivering'),
    log: open('log'),
    commands,
    lists: open('lists', listBounds),
  };
  return {
    ...pools,
    guard,
    close: async () => {
      await Promise.all(Object.values(pools).map((db) => db.close()));
    },
  };
}
