import {
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from './cluster.ts';
import type { Running } from './leat.ts';
import { waitFor } from './wait.ts';

/** What a program uses after a collection of its garbage, over all threads that run a file. */
export interface Usage {
  readonly heapBytes: number;
  readonly arrayBufferBytes: number;
  /** Open files, sockets and others. */
  readonly descriptors: number;
  /** The sockets among them. */
  readonly connections: number;
}

export interface MemoryProbe {
  /** For the environment of one program. */
  readonly settings: Readonly<Record<string, string>>;
  read(program: Pick<Running, 'child'>): Promise<Usage>;
}

/** Of the module. */
const pollMs = 100;
const module = new URL('memory-probe.mjs', import.meta.url).href;

interface Answer {
  readonly asked: number;
  readonly heapUsed: number;
  readonly arrayBuffers: number;
}

export function createMemoryProbe(scope: Scope): MemoryProbe {
  const folder = mkdtempSync(join(tmpdir(), 'leat-memory-'));
  scope.after(async () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'asked');
  let asked = 0;
  let threads = 1;
  const ask = (): void => {
    asked += 1;
    writeFileSync(`${file}.next`, String(asked));
    renameSync(`${file}.next`, file);
  };
  writeFileSync(file, '');
  const answers = (): Answer[] =>
    globSync(`${file}.+([0-9])`)
      .map((path) => JSON.parse(readFileSync(path, 'utf8')) as Answer)
      .filter((answer) => answer.asked === asked);
  return {
    settings: { NODE_OPTIONS: `--import=${module}`, MEMORY_PROBE: file },
    read: async ({ child }) => {
      ask();
      await waitFor('the main thread and those of before', () => answers().length >= threads);
      // A thread that has begun since answers at its next poll.
      await sleep(pollMs * 3);
      const all = answers();
      threads = all.length;
      return {
        heapBytes: all.reduce((sum, { heapUsed }) => sum + heapUsed, 0),
        arrayBufferBytes: all.reduce((sum, { arrayBuffers }) => sum + arrayBuffers, 0),
        ...descriptorsOf(child.pid),
      };
    },
  };
}

function descriptorsOf(pid = 0): Pick<Usage, 'descriptors' | 'connections'> {
  const folder = `/proc/${pid}/fd`;
  const targets = readdirSync(folder).flatMap((name) => {
    try {
      return readlinkSync(join(folder, name));
    } catch {
      // It was closed meanwhile.
      return [];
    }
  });
  const connections = targets.filter((target) => target.startsWith('socket:')).length;
  return { descriptors: targets.length, connections };
}

/** How much more the last third may have than the first. */
const slack: Readonly<Record<keyof Usage, (first: number) => number>> = {
  // Some caches take longer to fill, such as that of the requests of 4,096 streams, 3 MB.
  heapBytes: (first) => first * 0.1,
  arrayBufferBytes: () => 2 ** 21,
  // Clients keep some connections for their next request.
  descriptors: () => 12,
  connections: () => 12,
};

/** The averages of the first and the last third of measurements. */
export interface Compared {
  readonly key: keyof Usage;
  readonly first: number;
  readonly last: number;
  readonly isGrown: boolean;
}

/** Compares thirds, without the measurements before them: in that third of all caches are filled. */
export function compareThirds(usages: readonly Usage[]): Compared[] {
  const warm = usages.slice(Math.ceil(usages.length / 3));
  const third = Math.max(1, Math.floor(warm.length / 3));
  const keys = ['heapBytes', 'arrayBufferBytes', 'descriptors', 'connections'] as const;
  return keys.map((key) => {
    const average = (some: readonly Usage[]): number =>
      Math.round(some.reduce((sum, usage) => sum + usage[key], 0) / some.length);
    const [first, last] = [average(warm.slice(0, third)), average(warm.slice(-third))];
    return { key, first, last, isGrown: last - first > slack[key](first) };
  });
}
