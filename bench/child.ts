import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { ReceiverReport } from './receiver.ts';

/** A child that runs one of the files beside this one and talks over IPC. */
export function startChild(file: string, args: readonly string[] = []): ChildProcess {
  return fork(new URL(file, import.meta.url), args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

export async function message<T>(child: ChildProcess): Promise<T> {
  const [received] = (await once(child, 'message')) as [T];
  return received;
}

export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

export interface Receiver {
  readonly port: number;
  reset(): Promise<void>;
  /** Answers nothing until `open`, so that a side can be made ready while events wait. */
  hold(): Promise<void>;
  /** Answers what was held, and counts from there. */
  open(): Promise<void>;
  report(): Promise<ReceiverReport>;
  /** Waits until `count` requests have arrived; throws when none comes for 60 s. */
  received(count: number): Promise<ReceiverReport>;
  end(): Promise<void>;
}

export async function startReceiver(
  ...flags: ('--hang' | '--seq' | '--slow' | '--close')[]
): Promise<Receiver> {
  const child = startChild('./receiver.ts', flags);
  const { port } = await message<{ port: number }>(child);
  const ask = async (kind: 'reset' | 'hold' | 'open' | 'report'): Promise<ReceiverReport> => {
    const report = message<ReceiverReport>(child);
    child.send({ kind });
    return report;
  };
  return {
    port,
    reset: async () => {
      await ask('reset');
    },
    hold: async () => {
      await ask('hold');
    },
    open: async () => {
      await ask('open');
    },
    report: () => ask('report'),
    received: async (count) => {
      let last = await ask('report');
      let movedAt = Date.now();
      while (last.count < count) {
        await new Promise((resolve) => setTimeout(resolve, 25));
        const next = await ask('report');
        if (next.count > last.count) movedAt = Date.now();
        if (Date.now() - movedAt > 60_000) {
          throw new Error(`the receiver stands at ${next.count} of ${count} for 60 s`);
        }
        last = next;
      }
      return last;
    },
    end: () => endChild(child),
  };
}

/** Deliveries per second between the first and the last arrival. */
export function arrivalRate(report: ReceiverReport): number {
  return ((report.count - 1) / (report.lastAtMs - report.firstAtMs)) * 1000;
}
