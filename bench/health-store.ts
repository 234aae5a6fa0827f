import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { hourMs } from '../src/core/units.ts';
import type { Progress } from './bench.ts';
import { factTypes, factsOf, fillFacts } from './facts-store.ts';
import {
  addStreams,
  type Engine,
  type Running,
  startLeat,
  type TempStore,
  withStore,
} from './leat.ts';
import { wait } from './proc.ts';
import { execute } from './sql.ts';

export const healthOf = { events: 1_000_000, streams: 10_000 } as const;

/** One of so many streams is disabled, paused, failing and lagging each. */
const one = 50;
/** Until a node that has just started owns its streams and has read what it needs of them. */
const startSeconds = 15;

/**
 * Fills a store as for `facts`, with streams in all states up to 10,000, and starts a server on it for the time
 * of `work`. Attempts stay under way at a silent receiver, so that states stay as they are.
 */
export async function withHealth<T>(
  engine: Engine,
  { events, progress }: { readonly events: number; readonly progress: Progress },
  work: (leat: Running, tempStore: TempStore) => Promise<T>,
  fillMore: (tempStore: TempStore) => Promise<unknown> = async () => {},
): Promise<T> {
  const silent = createServer();
  await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve));
  const { port } = silent.address() as AddressInfo;
  const tempStore = await engine.createTempStore();
  await fillFacts(tempStore, events, progress);
  const streams = Array.from({ length: healthOf.streams - factsOf.streams }, (_, index) => ({
    name: `health-${factsOf.streams + index}`,
    types: [factTypes[index % factTypes.length] ?? ''],
  }));
  await withStore(tempStore, (store) => addStreams(store, port, streams, progress));
  await execute(tempStore, statementsFor(events), progress);
  await fillMore(tempStore);
  progress(`${engine.name}: starting`);
  const settings = { LEAT_ATTEMPT_TIMEOUT_MS: '600000', LEAT_CONCURRENCY: '64' };
  const leat = await startLeat(tempStore, settings);
  await wait(startSeconds);
  const result = await work(leat, tempStore);
  await leat.end();
  silent.close();
  await tempStore.remove();
  return result;
}

/** Those that are not sent to are far behind, each somewhere else; those that lag are close to the head. */
function statementsFor(events: number): string[] {
  const number = 'cast(substr(s.name, 8) as integer)';
  const those = (rest: number): string =>
    `(select s.id from streams s where s.name like 'health-%' and ${number} % ${one} = ${rest})`;
  const hourAgo = Date.now() - hourMs;
  const behind = (offset: string, rest: number): string =>
    `update runs set cursor = (select ${offset} from streams s where s.tenant = runs.tenant and s.id = runs.stream) where stream in ${those(rest)}`;
  return [
    `update runs set cursor = ${events}`,
    `update streams set status = 'disabled', disabled_since = ${hourAgo} where id in ${those(0)}`,
    `update streams set paused_at = ${hourAgo} where id in ${those(1)}`,
    `update runs set consecutive_failures = 3, last_failed_at = ${hourAgo} where stream in ${those(2)}`,
    behind(`(${number} * 7919) % ${events}`, 0),
    behind(`(${number} * 6007) % ${events}`, 1),
    behind(`${events} - ${number} % 8000`, 3),
  ];
}
