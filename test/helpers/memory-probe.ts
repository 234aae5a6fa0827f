import {
  existsSync,
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
import type { Scope } from './cluster.ts';
import type { Running } from './leat.ts';
import { waitFor } from './wait.ts';

/** What a program uses: its main thread after a collection of its garbage, and all of it. */
export interface Usage {
  readonly heapBytes: number;
  readonly arrayBufferBytes: number;
  /** Open files, sockets and others of all threads. */
  readonly descriptors: number;
  /** The sockets among them. */
  readonly connections: number;
}

export interface MemoryProbe {
  /** For the environment of one program. */
  readonly settings: Readonly<Record<string, string>>;
  read(program: Pick<Running, 'child'>): Promise<Usage>;
}

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
  const ask = (): void => {
    asked += 1;
    writeFileSync(`${file}.next`, String(asked));
    renameSync(`${file}.next`, file);
  };
  const answer = (): Answer | undefined => {
    const path = `${file}.answer`;
    const last = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Answer) : undefined;
    return last?.asked === asked ? last : undefined;
  };
  writeFileSync(file, '');
  return {
    settings: { NODE_OPTIONS: `--import=${module}`, MEMORY_PROBE: file },
    read: async ({ child }) => {
      ask();
      const { heapUsed, arrayBuffers } = await waitFor('the program to write what it uses', answer);
      return {
        heapBytes: heapUsed,
        arrayBufferBytes: arrayBuffers,
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
  descriptors: () => 3,
  connections: () => 3,
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
