import type { Logger } from 'pino';
import { StartRefused } from '../core/errors.ts';
import type { Store } from '../store/port/store.ts';
import type { CommandDeps } from './command.ts';
import { commandOf } from './commands.ts';
import { openOperatorServer, type OperatorServer } from './server.ts';
import { socketLocationOf } from './socket-location.ts';

/** Opens the operator's socket next to a SQLite file; the service runs without it if that fails. */
export async function openOperator(
  store: Store,
  deps: Omit<CommandDeps, 'store' | 'serverVersion'> & {
    readonly log: Logger;
    readonly version: string;
    /** Is told which commands run; absent: nobody is. */
    readonly watchdog?: { during<T>(command: string, work: Promise<T>): Promise<T> };
  },
): Promise<OperatorServer | undefined> {
  const { config, clock, random, log, version: serverVersion, watchdog, unknownHosts } = deps;
  if (config.store.engine !== 'sqlite' || config.store.file === undefined) return undefined;
  const commandDeps = { store, config, clock, random, serverVersion, unknownHosts };
  try {
    return await openOperatorServer({
      location: socketLocationOf(config.store.file),
      clock,
      random,
      run: (command, args, call) => {
        const work = commandOf(command)?.(commandDeps, args, call);
        return work && (watchdog?.during(command, work) ?? work);
      },
      report: (error, command) =>
        log.error({ err: error, command }, 'a command of the operator failed'),
    });
  } catch (error) {
    const cause = error instanceof StartRefused ? { reason: error.message } : { err: error };
    log.error(cause, 'operator commands cannot reach this server');
    return undefined;
  }
}
