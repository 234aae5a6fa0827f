import { type Command, sql, type Statement } from './command.ts';

export interface VersionDeps {
  /**
   * Returns the number of the last migration of each live node's program, 0 where unknown; absent
   * where only this process uses the store.
   */
  readonly liveVersions?: (() => Command<readonly number[]>) | undefined;
}

/**
 * Keeps programs without the migration of this number off the store from the commit on: they would
 * not heed what this transaction stores. Returns false, and changes nothing, while one of them runs.
 */
export function* requireVersion(
  { liveVersions = alone }: VersionDeps,
  version: number,
): Command<boolean> {
  const schema = yield* sql.get<{ oldest: number }>`
    select oldest_that_may_run as oldest from leat_schema`;
  if (schema !== undefined && schema.oldest >= version) return true;
  if ((yield* liveVersions()).some((live) => live < version)) return false;
  yield* keepOff(version);
  return true;
}

/** Keeps programs without the migration of this number off the store, if they are not already. */
export function keepOff(version: number): Statement<number> {
  return sql.run`
    update leat_schema set oldest_that_may_run = ${version}
    where oldest_that_may_run < ${version}`;
}

// oxlint-disable-next-line require-yield -- A command without statements.
function* alone(): Command<readonly number[]> {
  return [];
}
