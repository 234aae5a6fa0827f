import { promises as dns } from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { buildApp } from '../api/app.ts';
import { type CloseAddresses, openOtherAddresses } from '../api/http/extra-listeners.ts';
import { type Config, endsTls, limits } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { type ListenAddress, listenRefusal, urlOf } from './listen-address.ts';

/** The management API on all its addresses. */
export interface Listener {
  readonly url: string;
  /** Stops listening and waits for requests in progress; cuts off those that take too long. */
  close(): Promise<void>;
}

export interface ListenerDeps {
  readonly config: Config;
  readonly clock: Clock;
  /** Returns all addresses of a name; absent: those that the system resolver finds. */
  readonly addressesOf?: (hostname: string) => Promise<readonly string[]>;
}

/**
 * Probes the address before anything is created or renamed: a start that cannot listen changes
 * nothing. Throws `StartRefused`.
 */
export async function refuseTakenAddress(listening: ListenAddress): Promise<void> {
  const probe = createServer();
  try {
    probe.listen(listening.port, listening.host);
    await once(probe, 'listening');
  } catch (error) {
    throw listenRefusal(error, listening);
  }
  probe.close();
  await once(probe, 'close');
}

/** Listens on every address of the host. Throws `StartRefused` and closes the app if it cannot. */
export async function listen(
  app: ReturnType<typeof buildApp>,
  { config, clock, addressesOf = systemAddressesOf }: ListenerDeps,
): Promise<Listener> {
  const { host, port } = config;
  const url = urlOf(config, { tls: endsTls(config) });
  try {
    const [first = host, ...others] = host === 'localhost' ? await addressesOf(host) : [];
    await app.listen({ host: first, port });
    const closeOthers = await openOtherAddresses(app.server, others);
    return { url, close: () => closeInTime(app, closeOthers, clock) };
  } catch (error) {
    await app.close();
    throw listenRefusal(error, listenAddressOf(config));
  }
}

/**
 * Node checks no request timeout after its server began to close, so a client that never completes
 * its request would keep the process running.
 */
async function closeInTime(
  app: ReturnType<typeof buildApp>,
  closeOthers: CloseAddresses,
  clock: Clock,
): Promise<void> {
  const cutOff = clock.after(limits.http.closingMs, () => app.server.closeAllConnections());
  try {
    await Promise.all([app.close(), closeOthers()]);
  } finally {
    cutOff.cancel();
  }
}

async function systemAddressesOf(hostname: string): Promise<string[]> {
  const found = await dns.lookup(hostname, { all: true });
  return found.map(({ address }) => address);
}

/** Returns where the management API listens. */
export function listenAddressOf({ host, port }: Config): ListenAddress {
  return { host, port, portVariable: 'LEAT_PORT' };
}
