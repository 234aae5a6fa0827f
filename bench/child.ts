import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { basename, join } from 'node:path';
import { waitFor } from '../test/helpers/wait.ts';
import type { ReceiverReport } from './receiver.ts';

/** The folder of processor profiles; absent unless this run profiles. */
let profiles: string | undefined;
/** A server that waits for attempts under way ends at once when it is told again. */
const againMs = 3000;
/** A process that has not ended by then is killed and leaves no profile. */
const endingMs = 20_000;

/** Has V8 sample all processes that start from now on; each kind has a folder in the chosen one. */
export function profileInto(folder: string): void {
  profiles = folder;
}

/** Returns the environment of a process, in which Node samples it if this run profiles. */
export function profiled(
  name: string,
  env: Readonly<Record<string, string>>,
): Record<string, string> {
  if (profiles === undefined) return { ...env };
  const { NODE_OPTIONS: others = '' } = env;
  const flags = `--cpu-prof --cpu-prof-dir=${join(profiles, name)}`;
  return { ...env, NODE_OPTIONS: `${flags} ${others}` };
}

/** Starts a file of this folder as a child process with IPC. */
export function startChild(
  file: string,
  args: readonly (string | number)[] = [],
  env: Readonly<Record<string, string>> = {},
): ChildProcess {
  return fork(new URL(file, import.meta.url), args.map(String), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, ...profiled(basename(file, '.ts'), env) },
  });
}

export async function message<T>(child: ChildProcess): Promise<T> {
  const [received] = (await once(child, 'message')) as [T];
  return received;
}

/** Ends a child or a server; in an orderly way where V8 then writes its profile. */
export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  const kill = (): unknown => child.kill('SIGKILL');
  // A child of this folder ends when its channel closes, a server after a signal.
  const ask = (): unknown => (child.connected ? child.disconnect() : child.kill('SIGINT'));
  const timers =
    profiles === undefined ? [] : [setTimeout(ask, againMs), setTimeout(kill, endingMs)];
  void (profiles === undefined ? kill() : ask());
  await ended;
  for (const timer of timers) clearTimeout(timer);
}

export interface Receiver {
  readonly port: number;
  reset(): Promise<unknown>;
  /** Holds all responses until `open`, so that a side can be prepared while events wait. */
  hold(): Promise<unknown>;
  /** Sends the held responses, and counts from there. */
  open(): Promise<unknown>;
  /** Cuts all connections, and each new one, until `back`. */
  away(): Promise<unknown>;
  back(): Promise<unknown>;
  report(): Promise<ReceiverReport>;
  /** Waits until `count` requests have arrived; throws when none comes for 60 s. */
  received(count: number): Promise<ReceiverReport>;
}

/** Starts a receiver for the time of `work`. */
export async function withReceiver<T>(
  flags: readonly ('--hang' | '--seq' | '--slow' | '--close' | '--poison')[],
  work: (receiver: Receiver) => Promise<T>,
): Promise<T> {
  const child = startChild('./receiver.ts', flags);
  const { port } = await message<{ port: number }>(child);
  const order = (kind: string) => (): Promise<ReceiverReport> => {
    child.send({ kind });
    return message(child);
  };
  const report = order('report');
  const result = await work({
    port,
    reset: order('reset'),
    hold: order('hold'),
    open: order('open'),
    away: order('away'),
    back: order('back'),
    report,
    received: (count) => arrived(count, report),
  });
  await endChild(child);
  return result;
}

/** Waits until so many have arrived; throws when none comes for 60 s. */
export function arrived<Report extends { readonly count: number }>(
  count: number,
  report: () => Promise<Report>,
): Promise<Report> {
  let last = 0;
  const done = async (): Promise<Report | false> => {
    const now = await report();
    last = now.count;
    return last >= count && now;
  };
  const options = { progress: () => last, stallMs: 60_000, intervalMsMax: 25 };
  return waitFor(`${count} requests at the receiver`, done, options);
}

/** Deliveries per second between the first and the last arrival. */
export function arrivalRate({
  count,
  firstAtMs,
  lastAtMs,
}: Pick<ReceiverReport, 'count' | 'firstAtMs' | 'lastAtMs'>): number {
  return ((count - 1) / (lastAtMs - firstAtMs)) * 1000;
}
