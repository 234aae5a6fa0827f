import { Pool } from 'undici';
import type { Store } from '../src/store/port/store.ts';
import type { Bench } from './bench.ts';
import { type Running, type TempStore, withLeat } from './leat.ts';
import { urlOf, withClient, withPostgres } from './postgres.ts';
import { against, ratioFigure } from './report.ts';
import { alternate, pick, quantile } from './rounds.ts';
import { publishDelays } from './steady.ts';

const users = 400_000;
const listsAtOnce = 30;
const load = { perSecond: 100, seconds: 5 };
/** A sort with an index and the count of all users, and a sort without an index. */
const lists = [
  '/api/v2/users?sort=updated_at:-1&include_totals=true',
  '/api/v2/users?sort=email:1&page=9&per_page=100&include_totals=true',
  '/api/v2/users?sort=name:1',
];

/** The effect on publishers of clients that list users as fast as possible. */
export const management: Bench = {
  name: 'management',
  what: `p99 of publishing ${load.perSecond} events a second to a PostgreSQL store while ${listsAtOnce} clients list ${users} users, against without them`,
  run: (progress, { rounds }) =>
    withPostgres(async (engine) => {
      progress(`inserting ${users} users`);
      const fill = async (_: Store, tempStore: TempStore): Promise<void> => insertUsers(tempStore);
      return withLeat({ engine, fill }, async (leat) => {
        let counts = '';
        const beside = async (): Promise<number[]> => {
          const ending = new AbortController();
          const listing = listOn(leat, ending.signal);
          const delays = await publishDelays(leat, load);
          ending.abort();
          counts = await listing;
          return delays;
        };
        const seen = await alternate(rounds, beside, () => publishDelays(leat, load), progress);
        const p99 = pick(seen, (delays) => quantile(delays, 0.99));
        const detail = `p99 ${against(p99, 'ms')}; ${counts}`;
        return [ratioFigure('management p99', p99, { detail })];
      });
    }),
};

function insertUsers(tempStore: TempStore): Promise<void> {
  return withClient(urlOf(tempStore), async (client) => {
    await client.query(`
      insert into users (tenant, id, connection, email, password_hash, profile, created_at, updated_at)
      select 1, 'leat|' || n, 'Username-Password-Authentication', md5(n::text) || '@example.com', '',
        '{"name":"' || md5((n * 7)::text) || '"}', n, (n::bigint * 7919) % ${users}
      from generate_series(1, ${users}) as n`);
    await client.query('vacuum analyze users');
  });
}

/** Lists again and again; returns how many lists were completed. */
async function listOn({ url, headers }: Running, until: AbortSignal): Promise<string> {
  const pool = new Pool(url, { connections: listsAtOnce, pipelining: 1 });
  const counts = { completed: 0, refused: 0 };
  const listAgain = async (client: number): Promise<void> => {
    for (let turn = client; !until.aborted; turn += 1) {
      const path = lists[turn % lists.length] ?? '';
      const response = await pool.request({ path, method: 'GET', headers });
      await response.body.dump();
      if (response.statusCode === 200) counts.completed += 1;
      else counts.refused += 1;
    }
  };
  await Promise.all(Array.from({ length: listsAtOnce }, (_, client) => listAgain(client)));
  await pool.close();
  return `${counts.completed} lists completed, ${counts.refused} refused`;
}
