import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { beginProfile, endProfiled, profileFlags } from './profile.ts';
import type { ReceiverReport } from './receiver.ts';

/** Children that are a side of a comparison; the others make load or receive it. */
const sides = /bare-|outage-node|settlement/;

/** Starts a file of this folder as a child process with IPC. */
export function startChild(file: string, args: readonly string[] = []): ChildProcess {
  const isSide = sides.test(file);
  const child = fork(new URL(file, import.meta.url), args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    execArgv: [...process.execArgv, ...(isSide ? profileFlags() : [])],
  });
  if (isSide) beginProfile(child, basename(file));
  return child;
}

export async function message<T>(child: ChildProcess): Promise<T> {
  const [received] = (await once(child, 'message')) as [T];
  return received;
}

export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  // A child of this folder ends in an orderly way when its channel closes, a server after a signal.
  const ask = (): unknown => (child.connected ? child.disconnect() : child.kill('SIGINT'));
  if (await endProfiled(child, ask)) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

export interface Receiver {
  readonly port: number;
  reset(): Promise<void>;
  /** Holds all responses until `open`, so that a side can be prepared while events wait. */
  hold(): Promise<void>;
  /** Sends the held responses, and counts from there. */
  open(): Promise<void>;
  /** Cuts all connections, and each new one, until `back`. */
  away(): Promise<void>;
  back(): Promise<void>;
  report(): Promise<ReceiverReport>;
  /** Waits until `count` requests have arrived; throws when none comes for 60 s. */
  received(count: number): Promise<ReceiverReport>;
  end(): Promise<void>;
}

type Order = 'reset' | 'hold' | 'open' | 'away' | 'back' | 'report';

export async function startReceiver(
  ...flags: ('--hang' | '--seq' | '--slow' | '--close' | '--poison')[]
): Promise<Receiver> {
  const child = startChild('./receiver.ts', flags);
  const { port } = await message<{ port: number }>(child);
  const request = async (kind: Order): Promise<ReceiverReport> => {
    const report = message<ReceiverReport>(child);
    child.send({ kind });
    return report;
  };
  return {
    port,
    reset: async () => {
      await request('reset');
    },
    hold: async () => {
      await request('hold');
    },
    open: async () => {
      await request('open');
    },
    away: async () => {
      await request('away');
    },
    back: async () => {
      await request('back');
    },
    report: () => request('report'),
    received: async (count) => {
      let last = await request('report');
      let movedAt = Date.now();
      while (last.count < count) {
        await new Promise((resolve) => setTimeout(resolve, 25));
        const next = await request('report');
        if (next.count > last.count) movedAt = Date.now();
        if (Date.now() - movedAt > 60_000) {
          throw new Error(`the receiver has had ${next.count} of ${count} requests for 60 s`);
        }
        last = next;
      }
      return last;
    },
    end: () => endChild(child),
  };
}

/** Deliveries per second between the first and the last arrival. */
export function arrivalRate(
  report: Pick<ReceiverReport, 'count' | 'firstAtMs' | 'lastAtMs'>,
): number {
  return ((report.count - 1) / (report.lastAtMs - report.firstAtMs)) * 1000;
}
