import { once } from 'node:events';
import { createServer } from 'node:net';
import { mkdtemp, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { readConfig } from '../../config.ts';
import { codeOf, StartRefused } from '../../core/errors.ts';
import { tempFolder } from '../../files/temp-folder.ts';
import { accepts } from '../../operator/running-server.ts';
import { presentSocket, socketLocationOf } from '../../operator/socket-location.ts';
import type { ProgramContext } from '../context.ts';
import { openLog } from '../log.ts';
import { type Service, startService } from '../service.ts';
import { listenOnLoopback } from './loopback.ts';

// A service whose data exist while one command runs. It sends to loopback, and it reads neither the
// environment nor `.env`: it must not find the store of another service.

export interface ThrowawayOptions {
  /** Of {@link createFolder}. */
  readonly folder: string;
  /** Port of the management API; absent: a free one. */
  readonly port?: number | undefined;
  /** Returns a free port of loopback, which somebody else may take before the service does. */
  readonly findPort?: () => Promise<number>;
}

export interface Throwaway {
  readonly service: Service;
  readonly client: { readonly id: string; readonly secret: string };
}

type ThrowawayContext = Omit<ProgramContext, 'programFile' | 'stdout' | 'fail'>;

const portTriesMax = 5;

/** Starts a service with an embedded store in the folder, on loopback. Throws `StartRefused`. */
export async function startThrowaway(
  context: ThrowawayContext,
  { folder, port, findPort = freePort }: ThrowawayOptions,
): Promise<Throwaway> {
  if (port !== undefined) return startOn(context, folder, port);
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOn(context, folder, await findPort());
    } catch (error) {
      if (!isTaken(error) || tries === portTriesMax) throw error;
    }
  }
}

function isTaken(error: unknown): boolean {
  return error instanceof StartRefused && codeOf(error.cause) === 'EADDRINUSE';
}

async function startOn(
  { clock, random, stderr, version }: ThrowawayContext,
  folder: string,
  port: number,
): Promise<Throwaway> {
  const client = { id: 'dev', secret: Buffer.from(random(24)).toString('hex') };
  const read = readConfig({
    LEAT_PORT: String(port),
    LEAT_STORE: `sqlite:${storeIn(folder)}`,
    LEAT_BOOTSTRAP_CLIENT_ID: client.id,
    LEAT_BOOTSTRAP_CLIENT_SECRET: client.secret,
    LEAT_RETRY_DELAYS_MS: '250,500,1000',
    LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
    LEAT_EGRESS_ALLOW: '127.0.0.0/8',
    LEAT_LOG_LEVEL: 'error',
  });
  if ('problems' in read) throw new Error(read.problems.join('\n'));
  const { config, texts } = read;
  const log = await openLog(config, { clock, stderr });
  const service = await startService({ config, texts, clock, random, log, version });
  return { service, client };
}

/** Creates a temporary folder of its user. Throws `StartRefused`. */
export async function createFolder(): Promise<string> {
  const parent = tempFolder();
  try {
    return await mkdtemp(join(parent, prefix));
  } catch (error) {
    throw new StartRefused(
      `TMPDIR: no folder can be created in ${parent} (${codeOf(error) ?? 'failed'}): set it to a folder that this user can write to`,
      { cause: error },
    );
  }
}

/** Removes such a folder with all that is in it, and no other one, whatever names it. */
export async function removeFolder(folder: string): Promise<void> {
  if (dirname(folder) !== tempFolder() || !basename(folder).startsWith(prefix)) return;
  await rm(folder, { recursive: true, force: true });
}

const prefix = 'leat-dev-';

/** Returns whether no service is up in a folder: nothing listens on its socket for operators. */
export async function hasEnded(folder: string): Promise<boolean> {
  try {
    const path = presentSocket(socketLocationOf(storeIn(folder)));
    return path === undefined || !(await accepts({ path }));
  } catch {
    // A file of another user is not that of the run.
    return true;
  }
}

function storeIn(folder: string): string {
  return join(folder, 'leat.db');
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listenOnLoopback(server);
  server.close();
  await once(server, 'close');
  return port;
}
