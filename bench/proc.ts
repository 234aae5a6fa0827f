/** The resources of a process from /proc. Linux only. */
import { readdir, readFile } from 'node:fs/promises';

/** The resolution of processor times: 100 ticks a second, fixed for user space on Linux. */
export const clockTickMs = 10;
const tickMicros = clockTickMs * 1000;

/** Microseconds of processor time. */
export interface Spent {
  /** No worker threads, and none of V8, libuv or the disk. */
  readonly mainThread: number;
  readonly whole: number;
}

/** Returns what a process has spent so far. */
export async function spentBy(pid: number): Promise<Spent> {
  const [mainThread, whole] = [await statOf(pid, pid), await statOf(pid)].map(microsOf);
  return { mainThread: mainThread ?? NaN, whole: whole ?? NaN };
}

export function perUnit(before: Spent, after: Spent, units: number): Spent {
  return {
    mainThread: (after.mainThread - before.mainThread) / units,
    whole: (after.whole - before.whole) / units,
  };
}

/** Returns what a process has spent so far with all of its children, also those that have ended. */
export async function familyMicros(pid: number): Promise<number> {
  // The time of ended children is that of the parent.
  const ended = (await statOf(pid)).slice(13, 15).map(Number);
  let micros = ended.reduce((sum, ticks) => sum + ticks * tickMicros, (await spentBy(pid)).whole);
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await statOf(Number(name)).catch((): string[] => []);
    if (Number(stat[1]) === pid) micros += microsOf(stat);
  }
  return micros;
}

/** Measures the share of one core that a process uses for some seconds, in percent. */
export async function cpuPercent(
  pid: number,
  seconds: number,
  micros = async (of: number): Promise<number> => (await spentBy(of)).whole,
): Promise<number> {
  const before = await micros(pid);
  await wait(seconds);
  return (((await micros(pid)) - before) / 1e6 / seconds) * 100;
}

/** Returns resident memory: now, or its peak. */
export async function megabytesOf(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
}

/** The process that started this one. */
export async function parentOf(pid: number): Promise<number> {
  return Number((await statOf(pid))[1]);
}

export const wait = (seconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** The clock that the processes of a machine share. */
export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** User and system time so far. */
function microsOf(stat: readonly string[]): number {
  return (Number(stat[11]) + Number(stat[12])) * tickMicros;
}

/** The fields of proc(5) stat from the third on: state, parent, …, user time as the 14th, and so on. */
async function statOf(pid: number, thread?: number): Promise<string[]> {
  const of = thread === undefined ? String(pid) : `${pid}/task/${thread}`;
  const stat = await readFile(`/proc/${of}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** The processor time of the whole machine so far, in ticks of proc(5) stat. */
export interface MachineTicks {
  /** Used by programs and the kernel, or stolen. */
  readonly wanted: number;
  /** The host of a virtual machine gave it to others while it was wanted here. */
  readonly stolen: number;
}

/** Reads it; all zero where the system does not tell. */
export async function machineTicks(): Promise<MachineTicks> {
  const text = await readFile('/proc/stat', 'utf8').catch(() => '');
  const [user = 0, nice = 0, system = 0, , , interrupts = 0, soft = 0, stolen = 0] =
    /^cpu +(?<times>.+)$/m.exec(text)?.groups?.['times']?.split(' ').map(Number) ?? [];
  return { wanted: user + nice + system + interrupts + soft + stolen, stolen };
}
