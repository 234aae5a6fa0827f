import type { Purposes } from '../directory/command.ts';
import { type Comparing, createCommands } from './commands.ts';
import type { Pools } from './pools.ts';

/** Returns the connections of each purpose for commands. */
export function purposesOf(pools: Pools, identity: Comparing): Purposes {
  const on = (purpose: keyof Purposes) => createCommands(pools[purpose], identity);
  return {
    lists: { ...on('lists'), bounded: (list) => pools.lists.bounded(list) },
    commands: on('commands'),
    tokens: on('tokens'),
    access: on('access'),
    delivering: on('delivering'),
    lease: on('lease'),
  };
}
