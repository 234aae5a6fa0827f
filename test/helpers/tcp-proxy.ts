import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A TCP proxy on loopback that can do what networks do. */
export interface TcpProxy {
  readonly port: number;
  /** Connections accepted so far. */
  readonly accepted: number;
  /** Destroys every present connection. */
  cut(): void;
  /** Stops forwarding both ways without closing anything, for new connections too. */
  blackhole(): void;
  /** New connections are closed at once, present ones destroyed. */
  refuse(): void;
  /** New connections are forwarded again; what was black-holed stays dead. */
  restore(): void;
  /**
   * The next time a client sends these bytes they are forwarded, and the connection is destroyed
   * before the answer comes back.
   */
  loseAnswerTo(bytes: string): Promise<void>;
  close(): Promise<void>;
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let mode: 'forward' | 'blackhole' | 'refuse' = 'forward';
  let accepted = 0;
  let trap: { readonly bytes: string; readonly sprung: () => void } | undefined;

  const forward = (client: Socket): void => {
    const target = connect({ port: targetPort, host: '127.0.0.1', noDelay: true });
    const pair = [client, target] as const;
    pairs.add(pair);
    const destroy = (): void => {
      client.destroy();
      target.destroy();
      pairs.delete(pair);
    };
    for (const socket of pair) socket.on('error', destroy).on('close', destroy);
    target.on('data', (data) => void (mode === 'forward' && client.write(data)));
    client.on('data', (data) => {
      if (mode !== 'forward') return;
      const isCaught = trap !== undefined && data.includes(trap.bytes);
      target.write(data);
      if (!isCaught) return;
      // The server answers into a connection that nobody reads.
      target.removeAllListeners('data').resume();
      pairs.delete(pair);
      client.removeAllListeners('close').destroy();
      trap?.sprung();
      trap = undefined;
    });
  };
  const server = createServer({ noDelay: true }, (client) => {
    accepted += 1;
    if (mode === 'refuse') client.destroy();
    else if (mode === 'blackhole') pairs.add([client.on('error', () => undefined), client]);
    else forward(client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');

  const cut = (): void => {
    for (const pair of pairs) for (const socket of pair) socket.destroy();
    pairs.clear();
  };
  return {
    port: address.port,
    get accepted() {
      return accepted;
    },
    cut,
    blackhole: () => {
      mode = 'blackhole';
    },
    refuse: () => {
      mode = 'refuse';
      cut();
    },
    restore: () => {
      // What was swallowed would be missing in the middle.
      if (mode === 'blackhole') for (const pair of pairs) for (const end of pair) deaden(end);
      mode = 'forward';
    },
    loseAnswerTo: (bytes) =>
      new Promise((resolve) => {
        trap = { bytes, sprung: resolve };
      }),
    close: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}

function deaden(socket: Socket): void {
  socket.removeAllListeners('data').resume();
}
