import { dirname } from 'node:path';
import { createTerminal } from '../cli/terminal/terminal.ts';
import type { OperatorDeps } from '../operator/program.ts';
import { load, type ProgramContext } from './context.ts';
import { openLog } from './log.ts';
import { interruption } from './signals.ts';

/** Returns the dependencies of the operator's commands; each command loads only those it uses. */
export function operatorDeps(context: ProgramContext): OperatorDeps {
  const { clock, random, version, programFile, stdout, stderr } = context;
  return {
    load,
    openAdmin: async ({ config }) => {
      const { createAdmin } = await import('./admin.ts');
      return createAdmin({ config, clock, random });
    },
    addressesOf: async ({ config }) => {
      const { openNetwork } = await import('./network.ts');
      return openNetwork({ config, clock }).addressesOf;
    },
    alertChannels: async ({ config }) => {
      const { createAlertChannels } = await import('../alerting/channels.ts');
      const { openNetwork } = await import('./network.ts');
      const { fetch, lookup } = openNetwork({ config, clock });
      const log = await openLog(config, context);
      return createAlertChannels(config, {
        fetch,
        lookup,
        log,
        clock,
        userAgent: `Leat/${version}`,
      });
    },
    clock,
    random,
    nodeVersion: process.version,
    // `src/main.ts` in a checkout, a file in `lib` in the package.
    programFolder: programFile === undefined ? undefined : dirname(dirname(programFile)),
    terminal: createTerminal({ stdin: process.stdin, stdout, stderr }, { colour: false }),
    stderr,
    interruption: () => interruption(clock),
  };
}
