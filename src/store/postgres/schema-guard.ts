import { StoreOutdated } from '../../core/errors.ts';
import { mayRun, type SchemaState } from '../migrate.ts';

/**
 * Stops a running process from using a schema that a newer version has migrated: a table or a
 * function that it needs may be gone, or mean something else.
 */
export interface SchemaGuard {
  /** Throws `StoreOutdated` if the last {@link check} did. */
  refuse(): void;
  /** Reads the schema's state. Throws `StoreOutdated` when this program may not run on it. */
  check(): Promise<void>;
}

export function createSchemaGuard(deps: {
  /** The number of this program's last migration. */
  readonly own: number;
  readonly read: () => Promise<SchemaState | undefined>;
}): SchemaGuard {
  const { own, read } = deps;
  let outdated: StoreOutdated | undefined;
  const refuse = (): void => {
    if (outdated !== undefined) throw outdated;
  };
  return {
    refuse,
    check: async () => {
      const state = await read();
      const mayGoOn = state === undefined || mayRun(state, own);
      outdated = mayGoOn ? undefined : new StoreOutdated(textOf(state, own));
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
