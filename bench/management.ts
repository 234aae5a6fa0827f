import { Pool } from 'undici';
import type { Bench, Figure } from './bench.ts';
import { orderData, startLeat, withStore } from './leat.ts';
import { type PostgresTempStore, withClient, withPostgres } from './postgres.ts';
import { quantile } from './rounds.ts';

const users = 400_000;
const listsAtOnce = 30;
const perSecond = 100;
const seconds = 5;
/** A sort with an index and the count of all users, and a sort without an index. */
const lists = [
  '/api/v2/users?sort=updated_at:-1&include_totals=true',
  '/api/v2/users?sort=email:1&page=9&per_page=100&include_totals=true',
  '/api/v2/users?sort=name:1',
];
const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** The effect on publishers of clients that list users as fast as possible. */
export const management: Bench = {
  name: 'management',
  what: `p99 of publishing ${perSecond} events a second to a PostgreSQL store while ${listsAtOnce} clients list ${users} users, against without them`,
  run: (progress, { rounds }) =>
    withPostgres(async ({ createTempStore }) => {
      progress(`inserting ${users} users`);
      const tempStore = await createTempStore();
      await withStore(tempStore, async () => undefined);
      await insertUsers(tempStore);
      const leat = await startLeat(tempStore);
      const headers = { authorization: `Bearer ${leat.token}`, 'content-type': 'application/json' };
      const values: number[] = [];
      let detail = '';
      for (let round = 0; round < rounds; round += 1) {
        progress(`round ${round + 1} of ${rounds}`);
        const alone = await publishDelays(leat.url, headers);
        const ending = new AbortController();
        const listing = listOn(leat.url, headers, ending.signal);
        const underLoad = await publishDelays(leat.url, headers);
        ending.abort();
        const { completed, refused } = await listing;
        values.push(quantile(underLoad, 0.99) / quantile(alone, 0.99));
        detail =
          `p99 ${quantile(underLoad, 0.99).toFixed(1)} against ${quantile(alone, 0.99).toFixed(1)} ms; ` +
          `${completed} lists completed, ${refused} refused`;
      }
      await leat.end();
      await tempStore.remove();
      const figure: Figure = {
        name: 'management p99',
        detail,
        values,
        unit: '×',
        must: undefined,
        goal: undefined,
      };
      return [figure];
    }),
};

async function insertUsers({ url }: PostgresTempStore): Promise<void> {
  await withClient(url, async (client) => {
    await client.query(`
      insert into users (tenant, id, connection, email, password_hash, profile, created_at, updated_at)
      select 1, 'leat|' || n, 'Username-Password-Authentication', md5(n::text) || '@example.com', '',
        '{"name":"' || md5((n * 7)::text) || '"}', n, (n::bigint * 7919) % ${users}
      from generate_series(1, ${users}) as n`);
    await client.query('vacuum analyze users');
  });
}

type Headers = Record<string, string>;

/** Publishes one event at a time; a refusal counts as ten seconds. */
async function publishDelays(url: string, headers: Headers): Promise<number[]> {
  const pool = new Pool(url, { connections: 64, pipelining: 1 });
  const sending: Promise<number>[] = [];
  const began = nowMs();
  const publish = async (): Promise<number> => {
    const sentMs = nowMs();
    const body = JSON.stringify({ type: 'order.paid', data: orderData(sending.length) });
    const response = await pool.request({ path: '/api/v2/events', method: 'POST', headers, body });
    await response.body.dump();
    return response.statusCode === 202 ? nowMs() - sentMs : 10_000;
  };
  while (sending.length < perSecond * seconds) {
    const due = Math.min(perSecond * seconds, ((nowMs() - began) / 1000) * perSecond);
    while (sending.length < due) sending.push(publish());
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const delays = await Promise.all(sending);
  await pool.close();
  return delays;
}

async function listOn(
  url: string,
  headers: Headers,
  until: AbortSignal,
): Promise<{ completed: number; refused: number }> {
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
  return counts;
}
