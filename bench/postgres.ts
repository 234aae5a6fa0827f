import pg from 'pg';
import { startPostgres } from '../test/helpers/postgres.ts';
import type { Figure } from './bench.ts';
import { type Engine, makeFolder, sqlite, type TempStore } from './leat.ts';
import { parentOf } from './proc.ts';

/** Settings of a server that must not lose anything, with the real cost of a commit. */
const settings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '256MB',
};

/** Measures on a fresh server, which ends afterwards. The figures name its settings. */
export async function withPostgres(
  measure: (engine: Engine) => Promise<Figure[]>,
): Promise<Figure[]> {
  const server = await startPostgres({ settings });
  const [under, serverPid] = await withClient(server.url(), async (client) => [
    await settingsOf(client),
    await pidOf(client),
  ]);
  const figures = await measure({
    name: 'PostgreSQL',
    serverPid,
    createTempStore: async () => {
      const tempStore = await makeFolder();
      const url = await server.createDatabase();
      return {
        ...tempStore,
        location: { engine: 'postgres', url },
        // Tokens are valid at all nodes, whatever port each listens on.
        settings: { LEAT_STORE: url, LEAT_TENANT_DOMAIN: 'localhost' },
        remove: async () => {
          await server.dropDatabase(url);
          await tempStore.remove();
        },
      };
    },
  });
  await server.close();
  return figures.map((figure) => ({ ...figure, under }));
}

/** Measures on SQLite, then on PostgreSQL. */
export async function onBoth(measure: (engine: Engine) => Promise<Figure[]>): Promise<Figure[]> {
  return [...(await measure(sqlite)), ...(await withPostgres(measure))];
}

export function urlOf({ location }: Pick<TempStore, 'location'>): string {
  if (location.engine !== 'postgres') throw new Error('It is no store on PostgreSQL.');
  return location.url;
}

export async function withClient<T>(
  url: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** The server is the parent of its backends. */
async function pidOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return parentOf(rows[0]?.pid ?? 0);
}

/** Reads version and settings of the server: results depend on them. */
async function settingsOf(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ name: string; value: string }>(
    `select name, current_setting(name) as value from unnest($1::text[]) as u(name)`,
    [['server_version', ...Object.keys(settings)]],
  );
  const [version, ...others] = rows.map(({ name, value }) => `${name}=${value}`);
  return `PostgreSQL ${version?.split('=')[1]}, ${others.join(', ')}`;
}
