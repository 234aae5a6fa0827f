import type { Hint } from '../port/hints.ts';
import type { LaggingStream, UpkeepStore } from '../port/upkeep.ts';
import { type Command, type Commands, sql, together } from './command.ts';
import type { Runs } from './runs.ts';

/** Creates the command that disables a stream for its lag. Each engine finds such streams itself. */
export function createLagStore(deps: {
  readonly commands: Commands;
  readonly hint: (hint: Hint) => void;
  readonly runs: Runs;
}): Pick<UpkeepStore, 'disableLagging'> {
  return {
    disableLagging: async (lagging) => {
      const { tenant, stream } = lagging;
      const isDisabled = await deps.commands.transact('durable', () => disable(deps.runs, lagging));
      if (isDisabled) deps.hint({ kind: 'stream', tenant, stream });
      return isDisabled;
    },
  };
}

/** The reported percentage stays recorded until the alert about this is stored. */
function* disable(runs: Runs, { tenant, stream, cursor }: LaggingStream): Command<boolean> {
  const [run, now] = yield* together(runs.lock(tenant, stream), runs.now());
  if (run === undefined || run.status !== 'enabled' || run.cursor !== cursor) return false;
  const health = yield* runs.failWaiting(run, now);
  yield* together(
    runs.write({ ...run, health }),
    sql.run`
      update streams set status = 'disabled', disabled_reason = 'lag', lag_at = ${now},
        version = version + 1, updated_at = ${now}
      where tenant = ${tenant} and id = ${stream}`,
    runs.noteChange(run),
  );
  return true;
}
