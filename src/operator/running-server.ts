import { once } from 'node:events';
import { connect, type NetConnectOpts } from 'node:net';
import type { Config } from '../config.ts';
import { StartRefused } from '../core/errors.ts';
import { presentSocket, socketLocationOf } from './socket-location.ts';

/**
 * Throws `StartRefused` when a server runs on the SQLite file of the settings. Without it a second
 * start on one file would report a port in use first, and with other ports fail at the file.
 */
export async function refuseSecondServer({ store }: Pick<Config, 'store'>): Promise<void> {
  if (store.engine !== 'sqlite' || store.file === undefined) return;
  const path = ownSocket(store.file);
  if (path === undefined || !(await accepts({ path }))) return;
  throw new StartRefused(
    `LEAT_STORE: Leat is already running on ${store.file}, leat status shows it: stop it, or choose another file`,
  );
}

/** Returns the path of the socket; whatever is wrong with it is reported where it is opened. */
function ownSocket(file: string): string | undefined {
  try {
    return presentSocket(socketLocationOf(file));
  } catch (error) {
    if (error instanceof StartRefused) return undefined;
    throw error;
  }
}

/** Returns whether a server listens on a socket or a port; the socket of a killed server refuses connections. */
export async function accepts(at: NetConnectOpts): Promise<boolean> {
  const socket = connect(at);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
