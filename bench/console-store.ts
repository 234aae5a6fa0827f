import { DatabaseSync } from 'node:sqlite';
import { startOf } from '../src/core/delivery-stats.ts';
import { dayMs, hourMs, minuteMs } from '../src/core/units.ts';
import type { FactsStore } from './facts-store.ts';
import { fillHealth, healthOf } from './health-store.ts';
import type { TempStore } from './leat.ts';

/** Besides the streams and failures of `health`. */
export const consoleOf = { events: healthOf.events, streams: healthOf.streams, failures: 100_000 };

/** Hours with statistics: of every stream, and of the tenant. */
const hoursOf = { stream: 24, tenant: 7 * 24 } as const;
/** Histograms of some forty deliveries. */
const latency = '19:30 22:8 26:2';

/** Fills an SQLite store as for `health`, and adds statistics, so that charts have something to show. */
export async function fillConsoleStore(
  tempStore: TempStore,
  options: Parameters<typeof fillHealth>[1],
  progress: (text: string) => void,
): Promise<void> {
  const store: FactsStore = { tempStore, url: undefined };
  await fillHealth(store, options, progress);
  progress('statistics');
  const db = new DatabaseSync(tempStore.file);
  try {
    db.exec('pragma synchronous = off');
    for (const statement of statistics(Date.now())) db.exec(statement);
  } finally {
    db.close();
  }
}

function statistics(now: number): string[] {
  const units = (count: number): string =>
    `(with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count}) select i from n) as n`;
  const insert = `insert into delivery_stats (tenant, stream, unit, starts_at, writer, published,
    delivered, failed, retried, latency, duration)`;
  const hour = startOf('hour', now);
  const rows = (unit: string, from: number, spanMs: number, counts: string): string =>
    `'${unit}', ${from} - i * ${spanMs}, '', ${counts}, '${latency}', '${latency}'`;
  const minute = startOf('minute', now);
  return [
    `${insert} select 1, s.id, ${rows('hour', hour, hourMs, '0, 40, 1, 2')}
      from streams s, ${units(hoursOf.stream)}`,
    `${insert} select 1, '', ${rows('hour', hour, hourMs, '9000 + i % 24 * 500, 20000 + i % 24 * 1000, 100 + i, 300')}
      from ${units(hoursOf.tenant)}`,
    `${insert} select 1, '', ${rows('minute', minute, minuteMs, '150 + i % 60, 300 + i % 60, i % 7, 4')}
      from ${units(dayMs / minuteMs)}`,
    // Upkeep has nothing to add up.
    `insert into delivery_stats_sums (unit, starts_at, last_tenant, last_stream)
      values ('hour', ${hour}, 0, ''), ('day', ${startOf('day', now)}, 0, '')`,
  ];
}
