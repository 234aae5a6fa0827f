import pg from 'pg';
import { startPostgres } from '../test/helpers/postgres.ts';
import type { Figure } from './bench.ts';
import { makeFolder, type TempStore } from './leat.ts';
import { parentOf } from './proc.ts';

/** A PostgreSQL server of a benchmark. */
export interface Database {
  /** Creates a fresh database. */
  createTempStore(): Promise<PostgresTempStore>;
  /** The process id of the server. */
  readonly pid: number;
}

export interface PostgresTempStore extends TempStore {
  readonly url: string;
}

/** Settings of a server that must not lose anything, with the real cost of a commit. */
const settings = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '256MB',
};

/** Measures on a fresh server, which ends afterwards. The figures name its settings. */
export async function withPostgres(
  measure: (database: Database) => Promise<Figure[]>,
): Promise<Figure[]> {
  const server = await startPostgres({ settings });
  try {
    const under = await withClient(server.url(), settingsOf);
    const figures = await measure({
      pid: await withClient(server.url(), pidOf),
      createTempStore: async () => {
        const tempStore = await makeFolder();
        const url = await server.createDatabase();
        return {
          ...tempStore,
          url,
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
    return figures.map((figure) => ({ ...figure, under }));
  } finally {
    await server.close();
  }
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
