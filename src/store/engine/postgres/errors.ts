import pg from 'pg';
import {
  StoreContentRefused,
  StoreReplaced,
  StoreTextRefused,
  StoreUnavailable,
  type UnavailableReason,
} from '../../../core/errors.ts';
import { NoServer } from './hosts.ts';

/** Translates errors of PostgreSQL and its driver into those of the store. */

/** Returns the error of the driver, which an error of this program has as its cause. */
export function causeOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? error.cause : error;
}

/** Returns the SQLSTATE of an error or of its cause (PostgreSQL manual, appendix A). */
export function stateOf(error: unknown): string {
  const cause = causeOf(error);
  return cause instanceof pg.DatabaseError ? (cause.code ?? '') : '';
}

/** Classes of SQLSTATE: bad values, and exceeded limits. */
const refused = new Set(['22', '23', '54']);
/** character_not_in_repertoire: of the texts of JavaScript only U+0000 causes it. */
const badText = '22021';
/** The error of the function `leat_compare`; a class of our own. */
const replaced = 'LT409';
/** Classes that a statement of this program causes. */
const mistakes = new Set(['0A', '21', '24', '25', '26', '2F', '34', '42']);
/** A standby, and a transaction that was ended because it took too long. */
const passing = new Set(['25006', '25P03', '25P04']);

/** Throws what an error of the driver is for the caller. */
export function refuse(error: unknown): never {
  throw translated(error, false);
}

/** For a statement that commits: unless the server has refused it, nobody knows whether it did. */
export function refuseCommit(error: unknown): never {
  throw translated(error, !isRefusal(error));
}

/** Classes of errors that also end a session, or the server, at any moment: a commit may be in its log. */
const endings = new Set(['08', '53', '57', '58', 'XX']);

/** Whether the server has refused a statement and has taken back its transaction. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return false;
  // The severity is in the language of the server.
  return error.severity === 'ERROR' || !endings.has((error.code ?? '').slice(0, 2));
}

function translated(error: unknown, mayBeStored: boolean): unknown {
  if (!(error instanceof Error) || error instanceof TypeError) return error;
  if (!(error instanceof pg.DatabaseError)) {
    const reason = error instanceof NoServer && error.acceptsReads ? 'read_only' : 'away';
    const message = `PostgreSQL does not respond: ${error.message}`;
    return new StoreUnavailable(message, { cause: error, reason, mayBeStored });
  }
  const group = (error.code ?? '').slice(0, 2);
  if (error.code === replaced) return new StoreReplaced(error.message, { cause: error });
  if (error.code === badText) return new StoreTextRefused(error.message, { cause: error });
  if (refused.has(group)) return new StoreContentRefused(error.message, { cause: error });
  if (ofMissingNames.has(error.code ?? '')) {
    const text = `PostgreSQL lacks a part of the schema, a restore may be under way: ${error.message}`;
    return new StoreUnavailable(text, { cause: error, mayBeStored });
  }
  if (mistakes.has(group) && !passing.has(error.code ?? '')) return error;
  const reason = unavailableReasons.get(error.code ?? '') ?? 'away';
  return new StoreUnavailable(`PostgreSQL: ${error.message}`, {
    cause: error,
    reason,
    mayBeStored,
  });
}

/** read_only_sql_transaction, disk_full, lock_not_available */
const unavailableReasons: ReadonlyMap<string, UnavailableReason> = new Map([
  ['25006', 'read_only'],
  ['53100', 'full'],
  ['55P03', 'blocked'],
]);

/**
 * Errors that the schema rules out, and so of sessions that another client has altered:
 * invalid_schema_name, insufficient_privilege, undefined_table, undefined_function,
 * undefined_object, undefined_column, invalid_text_representation. A read-only transaction is more
 * often that of a server that follows another one by now.
 */
export const ofAlteredSessions = new Set([
  '3F000',
  '42501',
  '42P01',
  '42883',
  '42704',
  '42703',
  '22P02',
]);

/**
 * Of those, the ones for names that a schema lacks. No session explains them once another one, with
 * settings of our own, has them as well: the schema is being replaced.
 */
const ofMissingNames = new Set(['3F000', '42501', '42P01', '42883', '42704', '42703']);

/** Class 42: a missing table, column or function, and also errors of syntax and rights. */
export const namesNothing = '42';
/** serialization_failure, deadlock_detected */
export const deadlocks = new Set(['40001', '40P01']);

/** in_failed_sql_transaction: the error of each statement after the one that failed. */
export const afterFailure = '25P02';
