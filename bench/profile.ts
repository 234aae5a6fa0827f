/**
 * Processor profiles of the servers and bare sides that a benchmark starts. V8 writes them when a process
 * ends in an orderly way, one file for each of its threads.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CpuProfile, sharesOf, type Window } from './profile-shares.ts';

/** A process that is profiled, from the moment it was ready to the moment it was told to end. */
interface Profiled extends Window {
  readonly name: string;
  readonly pid: number;
  toMicros: number;
}

/** Absent unless this run profiles. */
let folder: string | undefined;
let processes: Profiled[] = [];

/** A server that waits for attempts under way ends at once when it is told again. */
const againMs = 3000;
/** A process that has not ended by then is killed and leaves no profile. */
const endingMs = 20_000;

/** Profiles all servers and bare sides that start from now on. */
export function profileInto(chosen: string): void {
  folder = chosen;
}

/** Returns the flags of Node for a child process; none unless this run profiles. */
export function profileFlags(): string[] {
  return folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${folder}`];
}

/** Returns an environment in which Node profiles; the same unless this run profiles. */
export function profiledEnvironment(env: Readonly<Record<string, string>>): Record<string, string> {
  if (folder === undefined) return { ...env };
  const { NODE_OPTIONS: others = '' } = env;
  return { ...env, NODE_OPTIONS: [...profileFlags(), others].join(' ').trim() };
}

/** Counts the time of a child from now on; its start is not part of the shares. */
export function beginProfile(child: ChildProcess, name: string): void {
  if (folder === undefined || child.pid === undefined) return;
  processes.push({ name, pid: child.pid, fromMicros: nowMicros(), toMicros: Infinity });
}

/**
 * Ends a child so that its profiles are written: `ask` tells it to end, a second time if need be. Returns false, and does nothing,
 * where it is not profiled.
 */
export async function endProfiled(child: ChildProcess, ask: () => void): Promise<boolean> {
  const profiled = processes.findLast(({ pid }) => pid === child.pid);
  if (profiled === undefined) return false;
  if (child.exitCode !== null || child.signalCode !== null) return true;
  profiled.toMicros = nowMicros();
  const ended = once(child, 'exit');
  const timers = [setTimeout(ask, againMs), setTimeout(() => child.kill('SIGKILL'), endingMs)];
  ask();
  await ended;
  for (const timer of timers) clearTimeout(timer);
  return true;
}

/** Returns lines about the profiles since the last call: each thread with its largest shares. */
export function profileLines(checkout: string): string[] {
  if (folder === undefined) return [];
  const from = folder;
  const names = readdirSync(from);
  const lines = processes.flatMap((profiled) => {
    const own = names.filter((name) => threadOf(name)?.pid === profiled.pid).toSorted();
    if (own.length === 0) return [`${profiled.name} ${profiled.pid}: no profile was written`];
    return own.flatMap((name) => threadLines(profiled, join(from, name), checkout));
  });
  processes = [];
  return lines;
}

function threadLines(profiled: Profiled, file: string, checkout: string): string[] {
  const profile = JSON.parse(readFileSync(file, 'utf8')) as CpuProfile;
  const { seconds, idle, program, rest, shares } = sharesOf(profile, profiled, 12);
  const thread = threadOf(file)?.thread ?? 0;
  const of = thread === 0 ? 'main thread' : `worker thread ${thread}`;
  const head =
    `${profiled.name} ${profiled.pid}, ${of}: ${seconds.toFixed(2)} s, of which idle ${percent(idle)}, ` +
    `program (native code outside of functions) ${percent(program)}, ` +
    `the rest ${percent(rest)}; shares of the rest:`;
  // A thread that did next to nothing has no shares that say anything.
  const shown = rest < 0.005 ? [] : shares;
  return [
    file,
    `  ${head}`,
    ...shown.map(({ share, name, place }) => {
      const where = place.replace(`file://${checkout}/`, '');
      return `    ${percent(share).padStart(6)}  ${name.slice(0, 60)}  ${where}`;
    }),
  ];
}

/** V8 names the file by date, time, process, thread and a number. */
function threadOf(file: string): { pid: number; thread: number } | undefined {
  const found = /CPU\.\d+\.\d+\.(?<pid>\d+)\.(?<thread>\d+)\.\d+\.cpuprofile$/.exec(file)?.groups;
  return found && { pid: Number(found['pid']), thread: Number(found['thread']) };
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

/** The clock of the profiles: monotonic, the same in all processes of the machine. */
function nowMicros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
