import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';

/** Stops accepting connections; resolves when the open ones have ended. */
export type CloseAddresses = () => Promise<unknown>;

/**
 * Opens listeners on further addresses, on the port of a server that listens already, and passes
 * their connections to it. Fastify does so for `localhost` with servers of its own, but not with a
 * custom server, and closes them without waiting for requests under way. An address that cannot be
 * opened is skipped: many machines have a name for ::1 and no IPv6.
 */
export async function openOtherAddresses(
  server: Server,
  addresses: readonly string[],
): Promise<CloseAddresses> {
  const { address: first, port } = server.address() as AddressInfo;
  const listeners: Server[] = [];
  for (const address of addresses) {
    if (address === first) continue;
    // As an HTTP server sets it for its connections.
    const listener = createServer({ noDelay: true }, (socket) => server.emit('connection', socket));
    listener.maxConnections = server.maxConnections;
    listener.listen(port, address);
    const isOpen = await once(listener, 'listening').then(
      () => true,
      () => false,
    );
    if (isOpen) listeners.push(listener);
  }
  return () => Promise.all(listeners.map(close));
}

async function close(listener: Server): Promise<void> {
  const closed = once(listener, 'close');
  listener.close();
  await closed;
}
