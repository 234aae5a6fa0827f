import { codeOf, StoreContentRefused } from '../core/errors.ts';
import type { DeliveryReport } from './report.ts';
import type { Runner } from './runner.ts';
import type { StoreRetry } from './store-retry.ts';

export interface CulpritDeps {
  readonly storeRetry: Pick<StoreRetry, 'runRefusable'>;
  readonly report: (event: DeliveryReport) => void;
}

/** A command about several streams, or what belongs to them. */
interface Command<One, Result> {
  readonly run: (some: readonly One[]) => Promise<Result>;
  /** Its result is that of these alone. */
  readonly done?: (some: readonly One[], result: Result) => void;
  /** The store refuses it for this one, with this code. */
  readonly refused: (one: One, code: string) => void;
}

/**
 * Runs a command until it succeeds, or the store refuses it. Then it is run for each alone, so that nothing
 * waits for a stream whose row the store refuses to change.
 */
export async function runForEach<One, Result>(
  deps: CulpritDeps,
  some: readonly One[],
  command: Command<One, Result>,
): Promise<void> {
  const [first, ...others] = some;
  if (first === undefined) return;
  try {
    const result = await deps.storeRetry.runRefusable(() => command.run(some));
    command.done?.(some, result);
  } catch (error) {
    if (!(error instanceof StoreContentRefused)) throw error;
    if (others.length > 0) {
      for (const each of some) await runForEach(deps, [each], command);
      return;
    }
    deps.report({ kind: 'unexpected', error });
    command.refused(first, codeOf(error.cause) ?? 'unknown');
  }
}

/** Runs a command about one item until it succeeds. Where the store refuses it, the result is `undefined`. */
export async function runOne<One, Result>(
  deps: CulpritDeps,
  one: One,
  command: () => Promise<Result>,
  refused: (one: One, code: string) => void = () => {},
): Promise<Result | undefined> {
  let result: Result | undefined;
  await runForEach(deps, [one], {
    run: command,
    done: (_items, given) => {
      result = given;
    },
    refused,
  });
  return result;
}

/** Does the same about a runner, which is abandoned where the store refuses the command. */
export function runFor<Result>(
  deps: CulpritDeps & { readonly abandon: (runner: Runner, code: string) => void },
  runner: Runner,
  command: () => Promise<Result>,
): Promise<Result | undefined> {
  return runOne(deps, runner, command, deps.abandon);
}
