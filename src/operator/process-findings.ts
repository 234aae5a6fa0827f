import { readFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { type Config, limits } from '../config.ts';
import { MIB } from '../core/units.ts';
import { type Finding, ok, warn } from './finding.ts';
import { bytesText, countText } from './table.ts';

/** What the machine lets a process do. */
export interface ProcessLimits {
  /** Files and sockets that may be open at once; `undefined` where it is unknown. */
  readonly openFilesMax: number | undefined;
  /** Of the machine, or of the container or service if that has less. */
  readonly memoryBytes: number;
  /** `undefined` where there are no numbers of users. */
  readonly user: number | undefined;
}

/** Reads the limits of this process. */
export async function processLimits(): Promise<ProcessLimits> {
  const total = totalmem();
  // Without a limit it is a number above all memory, or 0.
  const limit = process.constrainedMemory() || total;
  return {
    openFilesMax: await openFilesMax(),
    memoryBytes: Math.min(limit, total),
    user: process.getuid?.(),
  };
}

/**
 * Returns the soft limit, which Node raises to the hard one when it starts. A report of Node has it on
 * every system, but lists all sockets of a server for it.
 */
async function openFilesMax(): Promise<number | undefined> {
  const text = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const soft = /^Max open files +(?<soft>\d+|unlimited) /m.exec(text)?.groups?.['soft'];
  return soft === 'unlimited' ? Infinity : soft === undefined ? undefined : Number(soft);
}

type Settings = Pick<
  Config,
  'concurrency' | 'sseMaxConnections' | 'maxConnectionsPerAddress' | 'inflightBytesMax'
>;

/** Compares what the process may use with what the settings allow others to make it use. */
export function processFindings(allowed: ProcessLimits, settings: Settings): Finding[] {
  return [
    openFilesFinding(allowed, settings),
    memoryFinding(allowed, settings),
    ...userFindings(allowed),
  ];
}

/** Returns what to warn of at a start; `undefined` when the limit of open files suffices. */
export async function openFilesWarning(settings: Settings): Promise<string | undefined> {
  const { level, said, next } = openFilesFinding(await processLimits(), settings);
  return level === 'warn' ? `open files: ${said}; ${next}` : undefined;
}

/** Modules, the store, its connections, listeners and threads. */
const ownFiles = 256;

function openFilesFinding({ openFilesMax: max }: ProcessLimits, settings: Settings): Finding {
  const { concurrency, sseMaxConnections, maxConnectionsPerAddress } = settings;
  const needed = concurrency + sseMaxConnections + maxConnectionsPerAddress + ownFiles;
  if (max === undefined) return ok('open files', 'their limit is unknown on this system');
  const limit = max === Infinity ? 'any number' : countText(max);
  const text = `${limit} may be open; attempts, pulls and the connections of one address take up to ${countText(needed)}`;
  if (max >= needed) return ok('open files', text);
  return warn(
    'open files',
    text,
    `raise the limit (LimitNOFILE, ulimit -Hn), or lower LEAT_CONCURRENCY or LEAT_MAX_CONNECTIONS_PER_ADDRESS`,
  );
}

/** A service at rest with a sender thread (docs/measurements/node.md). */
const restBytes = 128 * MIB;

function memoryFinding({ memoryBytes }: ProcessLimits, { inflightBytesMax }: Settings): Finding {
  const { bodiesBytesMax, unreadOfAllBytesMax } = limits.http;
  const needed = restBytes + inflightBytesMax + bodiesBytesMax + unreadOfAllBytesMax;
  const text = `${bytesText(memoryBytes)} may be used; a node takes up to ${bytesText(needed)} when all its buffers are full`;
  if (memoryBytes >= needed) return ok('memory', text);
  return warn('memory', text, 'raise the limit of memory, or lower LEAT_INFLIGHT_BYTES');
}

function userFindings({ user }: ProcessLimits): Finding[] {
  if (user !== 0) return [];
  const next = 'run Leat as a user of its own, who owns the data folder';
  return [warn('user', 'the program runs as root', next)];
}
