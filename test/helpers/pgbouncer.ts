import { chownSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './ports.ts';
import { type PostgresServer, sharedPostgres, unprivilegedOwner } from './postgres.ts';
import { type Program, startProgram } from './program.ts';

/** Starts the real PgBouncer in transaction mode before a server, the shared one by default, with as many sessions. */
export async function startPgBouncer(
  sessions: number,
  before?: PostgresServer,
): Promise<Program & { port: number }> {
  const server = before ?? (await sharedPostgres());
  const { username } = new URL(server.url());
  const [port, owner] = [await freePort(), unprivilegedOwner()];
  const folder = await mkdtemp(join(tmpdir(), 'leat-pgbouncer-'));
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${server.port} user=${username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${sessions}
min_pool_size = ${sessions}
server_round_robin = 1
`,
  );
  if (owner !== undefined) for (const path of [folder, file]) chownSync(path, owner.uid, owner.gid);
  const program = await startProgram('pgbouncer', { args: [file], folder, port, ...owner });
  return { ...program, port };
}
