import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import {
  StoreContentRefused,
  StoreTextRefused,
  StoreUnavailable,
  type UnavailableReason,
} from '../../../core/errors.ts';

/**
 * One SQLite connection with statements written as tagged templates next to their one use:
 * `db.get<Row>`select name from tenants where id = ${id}``. Values are bound, never pasted. Each
 * template is prepared once.
 *
 * Throws `StoreUnavailable` when SQLite cannot read or write now, `StoreContentRefused` when a
 * value breaks a constraint, is too big or has U+0000.
 */
export interface Database {
  all<Row>(strings: TemplateStringsArray, ...values: Bindable[]): Row[];
  get<Row>(strings: TemplateStringsArray, ...values: Bindable[]): Row | undefined;
  /** Reads rows one by one, for readers that stop at another condition than their number. */
  each<Row>(strings: TemplateStringsArray, ...values: Bindable[]): Generator<Row, void, undefined>;
  /**
   * Does the same with each row as an array of its columns, which takes half the time: for readers of
   * thousands of rows.
   */
  eachArray<Columns extends readonly unknown[]>(
    strings: TemplateStringsArray,
    ...values: Bindable[]
  ): Generator<Columns, void, undefined>;
  /** Returns the number of rows changed. */
  run(strings: TemplateStringsArray, ...values: Bindable[]): number;
  /**
   * Runs `work` in one `begin immediate` transaction and commits, or rolls back when it throws.
   * `durable` commits survive a power cut; others survive only the end of the process, until a sync
   * of wal-sync.ts has covered them.
   */
  transact<T>(durability: Durability, work: () => T): T;
  /**
   * Moves the contents of the WAL into the file, as far as no reader needs it. A failure changes
   * nothing.
   */
  checkpoint(): void;
  /** Closes the connection; closing it twice is no error. */
  close(): void;
}

/** `undefined` is stored as null, a boolean as 0 or 1. */
export type Bindable = SQLInputValue | boolean | undefined;

export type Durability = 'durable' | 'relaxed';

export interface CommitHooks {
  /**
   * Called after each read outside of a transaction, and before a transaction commits and before a checkpoint.
   * Its error takes the place of what was read or thrown until then, and nothing is written.
   */
  readonly read: () => void;
  /** Called last within each transaction; may write as well. */
  readonly last?: () => void;
  /** Called before each transaction; an error that it throws refuses the transaction. */
  readonly before: (durability: Durability) => void;
  /** Called after each commit. */
  readonly committed: (durability: Durability) => void;
}

export function createDatabase(connection: DatabaseSync, hooks?: CommitHooks): Database {
  const statement = preparedOnce(connection);
  const setDurability = durabilitySwitch(connection);
  // Each method has its own try block: a closure per call would cost a tenth of an insert.
  return {
    ...readsOf(connection, hooks),
    run(strings, ...values) {
      try {
        return Number(statement(strings).run(...bound(values)).changes);
      } catch (error) {
        throw translated(error);
      }
    },
    transact(durability, work) {
      try {
        // First: a receiver of the hint may commit something else.
        hooks?.before(durability);
        setDurability(durability);
        const result = inTransaction(connection, work, hooks);
        hooks?.committed(durability);
        return result;
      } catch (error) {
        throw translated(error);
      }
    },
    checkpoint: () => {
      try {
        // Written into another file, the first page would make that look like this one.
        hooks?.read();
        connection.exec('pragma wal_checkpoint(passive)');
      } catch {
        // As after a commit: the WAL has all of it, and the next checkpoint begins where this one
        // did. The next transaction throws what lasts.
      }
    },
    close: () => {
      if (connection.isOpen) connection.close();
    },
  };
}

function readsOf(
  connection: DatabaseSync,
  hooks: CommitHooks | undefined,
): Pick<Database, 'all' | 'get' | 'each' | 'eachArray'> {
  const statement = preparedOnce(connection);
  const asArrays = preparedOnce(connection, { returnArrays: true });
  // Of a connection that was closed SQLite says so itself.
  const checkRead = (): void => {
    if (hooks !== undefined && connection.isOpen && !connection.isTransaction) hooks.read();
  };
  return {
    all<Row>(strings: TemplateStringsArray, ...values: Bindable[]) {
      try {
        return statement(strings).all(...bound(values)) as Row[];
      } catch (error) {
        throw translated(error);
      } finally {
        checkRead();
      }
    },
    get<Row>(strings: TemplateStringsArray, ...values: Bindable[]) {
      try {
        return statement(strings).get(...bound(values)) as Row | undefined;
      } catch (error) {
        throw translated(error);
      } finally {
        checkRead();
      }
    },
    *each<Row>(strings: TemplateStringsArray, ...values: Bindable[]) {
      try {
        for (const row of statement(strings).iterate(...bound(values))) yield row as Row;
      } catch (error) {
        throw translated(error);
      } finally {
        checkRead();
      }
    },
    *eachArray<Columns extends readonly unknown[]>(
      strings: TemplateStringsArray,
      ...values: Bindable[]
    ) {
      try {
        const rows: Iterable<unknown> = asArrays(strings).iterate(...bound(values));
        for (const row of rows) yield row as Columns;
      } catch (error) {
        throw translated(error);
      } finally {
        checkRead();
      }
    },
  };
}

/** Keyed by the literal itself: a tag receives the same array at each evaluation. */
function preparedOnce(
  connection: DatabaseSync,
  { returnArrays = false } = {},
): (strings: TemplateStringsArray) => StatementSync {
  const statements = new WeakMap<TemplateStringsArray, StatementSync>();
  return (strings) => {
    let statement = statements.get(strings);
    if (statement === undefined) {
      statement = connection.prepare(strings.join('?'), { returnArrays });
      statements.set(strings, statement);
    }
    return statement;
  };
}

function durabilitySwitch(connection: DatabaseSync): (durability: Durability) => void {
  let current: Durability | undefined;
  return (durability) => {
    if (durability === current) return;
    connection.exec(`pragma synchronous = ${durability === 'durable' ? 'full' : 'normal'}`);
    current = durability;
  };
}

function inTransaction<T>(
  connection: DatabaseSync,
  work: () => T,
  hooks: CommitHooks | undefined,
): T {
  connection.exec('begin immediate');
  try {
    const result = checkedAfter(work, hooks?.read);
    hooks?.last?.();
    commit(connection);
    return result;
  } catch (error) {
    // SQLite has already rolled back after a full disk or an I/O error.
    if (connection.isTransaction) connection.exec('rollback');
    throw error;
  }
}

function checkedAfter<T>(work: () => T, read: (() => void) | undefined): T {
  try {
    return work();
  } finally {
    read?.();
  }
}

/** SQLITE_IOERR_FSYNC: the commit is in the WAL, where the next process may find it. */
const notSynced = 1034;

function commit(connection: DatabaseSync): void {
  try {
    connection.exec('commit');
  } catch (error) {
    const mayBeStored = error instanceof Error && 'errcode' in error && error.errcode === notSynced;
    throw translated(error, mayBeStored);
  }
}

/**
 * Changes `values` in place: it is the caller's own rest array. Refuses U+0000, as PostgreSQL does: SQLite
 * stores it, but its functions see a text that ends there.
 */
function bound(values: Bindable[]): SQLInputValue[] {
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (typeof value === 'string') {
      if (value.includes('\0')) throw new StoreTextRefused('A text has the character U+0000.');
    } else if (value === undefined) values[index] = null;
    else if (typeof value === 'boolean') values[index] = value ? 1 : 0;
  }
  return values as SQLInputValue[];
}

/** Primary result codes of SQLite (sqlite.org/rescode.html). */
const unavailable = new Set([5, 6, 7, 8, 10, 11, 13, 14, 26]); // busy … full, cannot open, no db
const unavailableReasons: ReadonlyMap<number, UnavailableReason> = new Map([
  [8, 'read_only'],
  [13, 'full'],
]);
const refused = new Set([18, 19, 20]); // too big, constraint, type mismatch

function translated(error: unknown, mayBeStored = false): unknown {
  if (!(error instanceof Error)) return error;
  if ('errcode' in error) {
    const primary = Number(error.errcode) & 0xff;
    if (unavailable.has(primary)) {
      const reason = unavailableReasons.get(primary) ?? 'away';
      return new StoreUnavailable(error.message, { cause: error, reason, mayBeStored });
    }
    if (refused.has(primary)) return new StoreContentRefused(error.message, { cause: error });
  }
  // The connection was closed.
  if ('code' in error && error.code === 'ERR_INVALID_STATE') {
    return new StoreUnavailable(error.message, { cause: error });
  }
  return error;
}
