import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { StoreContentRefused, StoreUnavailable } from '../../core/errors.ts';

/**
 * One SQLite connection with statements written as tagged templates next to their one use:
 * `db.get<Row>`select name from tenants where id = ${id}``. Values are bound, never pasted. A
 * statement is prepared once per place in the source.
 */
export interface Database {
  all<Row>(strings: TemplateStringsArray, ...values: Bindable[]): Row[];
  get<Row>(strings: TemplateStringsArray, ...values: Bindable[]): Row | undefined;
  /** Answers the number of rows changed. */
  run(strings: TemplateStringsArray, ...values: Bindable[]): number;
  /**
   * Runs `work` in one `begin immediate` transaction and commits, or rolls back when it throws.
   * `durable` commits survive a power cut; others survive the end of the process only, which is
   * enough for what can be derived again.
   */
  transact<T>(durability: 'durable' | 'relaxed', work: () => T): T;
  close(): void;
}

/** `undefined` is stored as null, a boolean as 0 or 1. */
export type Bindable = SQLInputValue | boolean | undefined;

export function createDatabase(connection: DatabaseSync): Database {
  // Keyed by the literal itself: the language hands the same array to a tag at each evaluation.
  const statements = new WeakMap<TemplateStringsArray, StatementSync>();
  const prepared = (strings: TemplateStringsArray): StatementSync => {
    let statement = statements.get(strings);
    if (statement === undefined) {
      statement = connection.prepare(strings.join('?'));
      statements.set(strings, statement);
    }
    return statement;
  };
  let synchronous: 'durable' | 'relaxed' = 'durable';
  const setDurability = (durability: 'durable' | 'relaxed'): void => {
    if (durability === synchronous) return;
    connection.exec(`pragma synchronous = ${durability === 'durable' ? 'full' : 'normal'}`);
    synchronous = durability;
  };

  return {
    all: <Row>(strings: TemplateStringsArray, ...values: Bindable[]) =>
      guarded(() => prepared(strings).all(...values.map(bind)) as Row[]),
    get: <Row>(strings: TemplateStringsArray, ...values: Bindable[]) =>
      guarded(() => prepared(strings).get(...values.map(bind)) as Row | undefined),
    run: (strings, ...values) =>
      guarded(() => Number(prepared(strings).run(...values.map(bind)).changes)),
    transact: (durability, work) =>
      guarded(() => {
        setDurability(durability);
        connection.exec('begin immediate');
        try {
          const result = work();
          connection.exec('commit');
          return result;
        } catch (error) {
          // SQLite has rolled back by itself after a full disk or an I/O error.
          if (connection.isTransaction) connection.exec('rollback');
          throw error;
        }
      }),
    close: () => connection.close(),
  };
}

function bind(value: Bindable): SQLInputValue {
  if (value === undefined) return null;
  if (typeof value === 'boolean') return value ? 1 : 0;
  return value;
}

function guarded<T>(action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw translated(error);
  }
}

/** Primary result codes of SQLite (sqlite.org/rescode.html). */
const unavailable = new Set([5, 6, 8, 10, 11, 13, 14, 26]); // busy … full, cannot open, not a db
const refused = new Set([18, 20]); // too big, type mismatch

function translated(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error)) return error;
  const primary = Number(error.errcode) & 0xff;
  if (unavailable.has(primary)) return new StoreUnavailable(error.message, { cause: error });
  if (refused.has(primary)) return new StoreContentRefused(error.message, { cause: error });
  return error;
}
