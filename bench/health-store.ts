import { DatabaseSync } from 'node:sqlite';
import { hourMs } from '../src/core/units.ts';
import { factTypes, type FactsStore, factsOf, fillFacts } from './facts-store.ts';
import { addStream, withStore } from './leat.ts';
import { withClient } from './postgres.ts';

export const healthOf = { events: 1_000_000, streams: 10_000 } as const;

/** One of so many streams is disabled, paused, failing and lagging each. */
const one = 50;

/** Fills a store as for `facts`, and adds streams in all states up to 10,000. */
export async function fillHealth(
  { tempStore, url }: FactsStore,
  { events, silentPort }: { readonly events: number; readonly silentPort: number },
  progress: (text: string) => void,
): Promise<void> {
  await fillFacts({ tempStore, url }, events, progress);
  await withStore(tempStore, async (store) => {
    for (let index = factsOf.streams; index < healthOf.streams; index += 1) {
      if (index % 500 === 0) progress(`creating streams: ${index} of ${healthOf.streams}`);
      const types = [factTypes[index % factTypes.length] ?? ''];
      await addStream(store, silentPort, { name: `health-${index}`, types });
    }
  });
  progress('states');
  const statements = statementsFor(events);
  if (url === undefined) {
    const db = new DatabaseSync(tempStore.file);
    for (const statement of statements) db.exec(statement);
    db.close();
    return;
  }
  await withClient(url, async (client) => {
    for (const statement of statements) await client.query(statement);
    await client.query('vacuum analyze');
  });
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
