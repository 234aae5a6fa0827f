import type { Clock } from '../../../core/clock.ts';
import type { StoreUnavailable } from '../../../core/errors.ts';
import { createDatabase, type Database, type DatabaseOptions } from './database.ts';
import type { Hosts } from './hosts.ts';
import { ownVersion, schemaState } from './schema.ts';
import { createSchemaGuard, type SchemaGuard } from './schema-guard.ts';

/**
 * Connections by purpose, so that none waits for another one. With one pool for everything a
 * handful of slow lists would take every connection, and block publishing and the lease.
 */
export interface Pools extends Readonly<Record<Purpose, Database>> {
  /** Reads of what callers may do, on the connections for `publishing`. */
  readonly access: Database;
  /** Checks with the connection of the lease. */
  readonly guard: SchemaGuard;
  close(): Promise<void>;
}

/**
 * `lease`: join, heartbeat, leave. `publishing`: append. `delivering`: claim and settle. `log`: read events
 * and heads. `tokens`: what a token is issued and verified with. `commands`: changes and reads of single rows,
 * upkeep, hints. `lists`: pages of the management API.
 */
export type Purpose = (typeof purposes)[number];

const purposes = [
  'lease',
  'publishing',
  'delivering',
  'log',
  'tokens',
  'commands',
  'lists',
] as const;

/** One connection for each purpose, and the one that listens. */
const connectionsMin = purposes.length + 1;

/**
 * The purposes that get the connections beyond one each, in turns. The heartbeat needs no second
 * one, nor do keys, which are cached, and requests for tokens, which are few.
 */
const turns = ['publishing', 'delivering', 'log', 'commands', 'lists', 'publishing', 'delivering'];

/**
 * A list is served or refused within the sum of both times, however many statements it has. Any client may
 * request lists; a client that requests too many is refused first.
 */
const listBounds = { statementMs: 3000, waitMs: 2000, waitingMax: 64 };

/**
 * Comes before an append, which has what is left of its time; each of several thousand clients may wait for
 * the same connections.
 */
const accessBounds = { ...listBounds, waitingMax: Infinity };

/**
 * A heartbeat, a change, or a read of a row or of the log is served or refused within this time and a second
 * for each further statement.
 */
const commandMs = 9000;

/** Returns how many connections each purpose has, of `total` including the one that listens. */
export function sharesOf(total: number): Record<Purpose, number> {
  const shares = Object.fromEntries(purposes.map((purpose) => [purpose, 1]));
  for (let extra = 0; extra < total - connectionsMin; extra += 1) {
    const purpose = turns[extra % turns.length] ?? '';
    shares[purpose] = (shares[purpose] ?? 0) + 1;
  }
  return shares as Record<Purpose, number>;
}

export function createPools(
  options: Omit<DatabaseOptions, 'connectionsMax' | 'bounds' | 'repair' | 'guard'> & {
    readonly hosts: Hosts;
    /** Connections of this process, including the one that listens; at least `connectionsMin`. */
    readonly connectionsMax: number;
    readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
    /** Repairs the cause of a failed statement, with the pool for commands. */
    readonly repair: (db: Database, error: unknown) => Promise<boolean>;
    /** Follows the key check; returns an error when this process lacks a key that it names. */
    readonly lackedKey: (db: Database) => Promise<StoreUnavailable | undefined>;
  },
): Pools {
  const { hosts, connectionsMax, clock, repair, lackedKey } = options;
  const shares = sharesOf(connectionsMax);
  const total = { ms: commandMs, clock };
  const lease = createDatabase({ hosts, connectionsMax: shares.lease, total });
  const guard = createSchemaGuard({
    own: ownVersion(),
    read: () => schemaState(lease),
    lackedKey: () => lackedKey(lease),
  });
  const open = (
    purpose: Purpose,
    limits: Pick<DatabaseOptions, 'bounds' | 'total'> = {},
  ): Database =>
    createDatabase({
      hosts,
      ...limits,
      guard,
      connectionsMax: shares[purpose],
      repair: (error) => repair(commands, error),
    });
  const commands = open('commands', { total });
  const publishing = open('publishing');
  const pools = {
    lease,
    publishing,
    delivering: open('delivering'),
    log: open('log', { total }),
    tokens: open('tokens', { total }),
    commands,
    lists: open('lists', { bounds: { ...listBounds, clock } }),
  };
  return {
    ...pools,
    access: publishing.within({ ...accessBounds, clock }),
    guard,
    close: async () => {
      await Promise.all(Object.values(pools).map((db) => db.close()));
    },
  };
}
