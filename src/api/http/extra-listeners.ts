import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';

/** Takes no new connection and ends when the open ones have ended. */
export type CloseAddresses = () => Promise<unknown>;

/**
 * Lets a server that listens take connections at these addresses too, on its port. Fastify would do
 * so for `localhost` by servers of its own, but not when it was given one, and without waiting for
 * what is under way there when it closes. An address that cannot be had is left out: many a machine
 * has a name for ::1 and no IPv6.
 */
export async function openOtherAddresses(
  server: Server,
  addresses: readonly string[],
): Promise<CloseAddresses> {
  const { address: first, port } = server.address() as AddressInfo;
  const doors: Server[] = [];
  for (const address of addresses) {
    if (address === first) continue;
    // Without delay, as an HTTP server has its connections.
    const door = createServer({ noDelay: true }, (socket) => server.emit('connection', socket));
    door.maxConnections = server.maxConnections;
    door.listen(port, address);
    const isOpen = await once(door, 'listening').then(
      () => true,
      () => false,
    );
    if (isOpen) doors.push(door);
  }
  return () => Promise.all(doors.map(closeDoor));
}

async function closeDoor(door: Server): Promise<void> {
  const closed = once(door, 'close');
  door.close();
  await closed;
}
