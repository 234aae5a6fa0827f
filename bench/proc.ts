/** What a process costs, as /proc tells. Linux only. */
import { readFile } from 'node:fs/promises';

/** Clock ticks per second of /proc/<pid>/stat; fixed at 100 for user space on Linux. */
const ticksPerSecond = 100;

/** Share of one core that a process takes while so many seconds pass, in percent. */
export async function cpuPercent(pid: number, seconds: number): Promise<number> {
  const before = await cpuTicks(pid);
  await wait(seconds);
  return (((await cpuTicks(pid)) - before) / ticksPerSecond / seconds) * 100;
}

export async function residentMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

export const wait = (seconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** User and system time so far; fields 14 and 15 of proc(5) stat. */
async function cpuTicks(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}
