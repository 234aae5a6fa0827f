import { StoreOutdated, type StoreUnavailable } from '../../../core/errors.ts';
import { mayRun, type SchemaState } from '../../migrate.ts';

/**
 * Stops a running process from using a schema that a newer version has migrated (a table or a
 * function that it needs may be gone, or mean something else), and a store whose secrets are sealed
 * with a key that the process lacks.
 */
export interface SchemaGuard {
  /** Throws what the last {@link check} threw. */
  refuse(): void;
  /**
   * Reads the schema's state and the key check. Throws `StoreOutdated` when this program may not run
   * on the schema, `StoreUnavailable` when it lacks a key.
   */
  check(): Promise<void>;
}

export function createSchemaGuard(deps: {
  /** The number of this program's last migration. */
  readonly own: number;
  readonly read: () => Promise<SchemaState | undefined>;
  /** Returns the error of a process that lacks a key. */
  readonly lackedKey: () => Promise<StoreUnavailable | undefined>;
}): SchemaGuard {
  const { own, read, lackedKey } = deps;
  let obstacle: StoreUnavailable | undefined;
  const refuse = (): void => {
    if (obstacle !== undefined) throw obstacle;
  };
  return {
    refuse,
    check: async () => {
      const state = await read();
      const mayGoOn = state === undefined || mayRun(state, own);
      obstacle = mayGoOn ? await lackedKey() : new StoreOutdated(textOf(state, own));
      refuse();
    },
  };
}

function textOf({ version, oldestThatMayRun }: SchemaState, own: number): string {
  const number = (value: number): string => String(value).padStart(4, '0');
  return (
    `a newer version of Leat changed the schema to ${number(version)}, which programs from ` +
    `${number(oldestThatMayRun)} on may use and this one is ${number(own)}: stop this process and ` +
    'start the newer version'
  );
}
