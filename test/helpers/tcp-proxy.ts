import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A TCP proxy on loopback that simulates network faults. */
export interface TcpProxy {
  readonly port: number;
  /** Connections accepted so far. */
  readonly accepted: number;
  /** How long bytes take to the server, and back. */
  delayMs: number;
  /** Destroys every open connection. */
  cut(): void;
  /**
   * Stops forwarding without closing connections, also for new ones: in both directions, or what comes from
   * the one side only.
   */
  blackhole(from?: 'client' | 'server'): void;
  /** Closes new connections at once and destroys open ones. */
  refuse(): void;
  /** Forwards new connections again; connections from the black hole stay dead. */
  restore(): void;
  /**
   * Forwards these bytes the next time that a client sends them, and destroys the connection before
   * the response arrives. With one of `except` beside them they are forwarded as all others.
   */
  loseAnswerTo(bytes: string, except?: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let mode: 'forward' | 'blackhole' | 'refuse' = 'forward';
  let forwarded: 'client' | 'server' | undefined;
  let accepted = 0;
  let delayMs = 0;
  let trap:
    | { readonly bytes: string; readonly except: readonly string[]; readonly triggered: () => void }
    | undefined;

  const forwards = (from: 'client' | 'server'): boolean => mode === 'forward' || forwarded === from;
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
    const sent = new Map<Socket, Promise<void>>();
    const write = (socket: Socket, data: string | Buffer): void => {
      if (delayMs === 0) socket.write(data);
      else sent.set(socket, writeAt(performance.now() + delayMs, socket, data, sent.get(socket)));
    };
    target.on('data', (data) => void (forwards('server') && write(client, data)));
    client.on('data', (data) => {
      if (!forwards('client')) return;
      const isTrapped =
        trap !== undefined &&
        data.includes(trap.bytes) &&
        !trap.except.some((bytes) => data.includes(bytes));
      write(target, data);
      if (!isTrapped) return;
      // The response of the server is discarded, and must not keep the test from ending.
      target.removeAllListeners('data').resume().unref();
      pairs.delete(pair);
      client.removeAllListeners('close').destroy();
      trap?.triggered();
      trap = undefined;
    });
  };
  const server = createServer({ noDelay: true }, (client) => {
    accepted += 1;
    if (mode === 'refuse') client.destroy();
    else if (mode === 'blackhole' && forwarded === undefined)
      pairs.add([client.on('error', () => undefined), client]);
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
    get delayMs() {
      return delayMs;
    },
    set delayMs(value) {
      delayMs = value;
    },
    cut,
    blackhole: (from) => {
      mode = 'blackhole';
      forwarded = from === undefined ? from : from === 'client' ? 'server' : 'client';
    },
    refuse: () => {
      mode = 'refuse';
      forwarded = undefined;
      cut();
    },
    restore: () => {
      // The discarded bytes would be missing in the middle.
      if (mode === 'blackhole') for (const pair of pairs) for (const end of pair) deaden(end);
      mode = 'forward';
      forwarded = undefined;
    },
    loseAnswerTo: (bytes, except = []) =>
      new Promise((resolve) => {
        trap = { bytes, except, triggered: resolve };
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

/** Writes after what is written before, and not earlier than the time. */
async function writeAt(
  atMs: number,
  socket: Socket,
  data: string | Buffer,
  former: Promise<void> | undefined,
): Promise<void> {
  await former;
  // The time of a timer begins with the turn of the event loop that sets it: on a busy machine it fires early.
  for (let leftMs = atMs - performance.now(); leftMs > 0; leftMs = atMs - performance.now()) {
    await sleep(Math.ceil(leftMs));
  }
  socket.write(data);
}
