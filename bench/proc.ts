/** The resources of a process from /proc. Linux only. */
import { readdir, readFile } from 'node:fs/promises';

/** Clock ticks per second of /proc/<pid>/stat; fixed at 100 for user space on Linux. */
const ticksPerSecond = 100;
/** The resolution of processor times. */
export const clockTickMs = 1000 / ticksPerSecond;

/** Measures the share of one core that a process uses for some seconds, in percent. */
export async function cpuPercent(pid: number, seconds: number): Promise<number> {
  const before = await cpuTicks(pid);
  await wait(seconds);
  return (((await cpuTicks(pid)) - before) / ticksPerSecond / seconds) * 100;
}

/** The same for a process with all of its children, also those that end during that time. */
export async function familyCpuPercent(pid: number, seconds: number): Promise<number> {
  const before = await familyTicks(pid);
  await wait(seconds);
  return (((await familyTicks(pid)) - before) / ticksPerSecond / seconds) * 100;
}

export async function residentMegabytes(pid: number): Promise<number> {
  return megabytesOf(pid, 'VmRSS');
}

/** Returns the peak of resident memory. */
export async function peakMegabytes(pid: number): Promise<number> {
  return megabytesOf(pid, 'VmHWM');
}

async function megabytesOf(pid: number, field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
}

/** Returns the processor time of a process and its children so far, in seconds. */
export async function cpuSeconds(pid: number): Promise<number> {
  return (await familyTicks(pid)) / ticksPerSecond;
}

/** Returns the processor time of a process so far, without its children, in microseconds. */
export async function processMicros(pid: number): Promise<number> {
  return (await cpuTicks(pid)) * clockTickMs * 1000;
}

/** Returns the same of its main thread: no worker threads, and none of V8, libuv or the disk. */
export async function mainThreadMicros(pid: number): Promise<number> {
  return ticksOf(await statOf(pid, pid)) * clockTickMs * 1000;
}

/** The process that started this one. */
export async function parentOf(pid: number): Promise<number> {
  return Number((await statOf(pid))[1]);
}

export const wait = (seconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** User and system time so far. */
async function cpuTicks(pid: number): Promise<number> {
  return ticksOf(await statOf(pid));
}

function ticksOf(stat: readonly string[]): number {
  return Number(stat[11]) + Number(stat[12]);
}

async function familyTicks(pid: number): Promise<number> {
  // The time of ended children is that of the parent.
  const [user, system, endedUser, endedSystem] = (await statOf(pid)).slice(11).map(Number);
  let ticks = (user ?? 0) + (system ?? 0) + (endedUser ?? 0) + (endedSystem ?? 0);
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const child = Number(name);
    const isOwn = await parentOf(child).then(
      (parent) => parent === pid,
      () => false,
    );
    if (isOwn) ticks += await cpuTicks(child).catch(() => 0);
  }
  return ticks;
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
