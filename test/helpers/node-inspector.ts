import { once } from 'node:events';
import type { Running } from './leat.ts';

/** A debugger that is attached to a program which was started with `NODE_OPTIONS=--inspect=127.0.0.1:0`. */
export interface NodeInspector {
  /** Sends a command to the main thread; resolves with its response. */
  send(method: string, params?: object): Promise<unknown>;
  /** Evaluates an expression in each running thread whose name contains `name`; does not wait for its result. */
  evaluateIn(name: string, expression: string): Promise<void>;
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly sessionId: string; readonly workerInfo: { readonly title: string } };
}

/** Attaches a debugger until the test ends. */
export async function openNodeInspector(
  t: { after(end: () => void): void },
  leat: Pick<Running, 'output'>,
): Promise<NodeInspector> {
  const url = /Debugger listening on (?<url>ws:\S+)/.exec(leat.output())?.groups?.['url'] ?? '';
  const socket = new WebSocket(url);
  t.after(() => socket.close());
  await once(socket, 'open');
  const waiting = new Map<number, (response: unknown) => void>();
  const threads = new Map<string, string>();
  socket.addEventListener('message', ({ data }) => {
    const { id, method, params } = JSON.parse(String(data)) as Message;
    if (id !== undefined) waiting.get(id)?.(JSON.parse(String(data)));
    if (params === undefined) return;
    if (method === 'NodeWorker.attachedToWorker') {
      threads.set(params.sessionId, params.workerInfo.title);
    }
    if (method === 'NodeWorker.detachedFromWorker') threads.delete(params.sessionId);
  });
  const send = (method: string, params: object = {}): Promise<unknown> =>
    new Promise((resolve) => {
      const id = waiting.size + 1;
      waiting.set(id, resolve);
      socket.send(JSON.stringify({ id, method, params }));
    });
  return {
    send,
    evaluateIn: async (name, expression) => {
      await send('NodeWorker.enable', { waitForDebuggerOnStart: false });
      for (const [sessionId, title] of threads) {
        if (!title.includes(name)) continue;
        const message = JSON.stringify({
          id: 1,
          method: 'Runtime.evaluate',
          params: { expression },
        });
        await send('NodeWorker.sendMessageToWorker', { sessionId, message });
      }
    },
  };
}
