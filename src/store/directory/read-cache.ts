import { LRUCache } from 'lru-cache';
import type { Hint } from '../port/hints.ts';
import type { Block } from './log-blocks.ts';
import type { StreamList } from './stream-list.ts';

/** What reading the states of streams keeps in memory, for a process. */
export interface ReadCache {
  /** By tenant and number. */
  readonly blocks: LRUCache<string, Block>;
  /** By tenant. */
  readonly streams: LRUCache<number, StreamList>;
}

/** Blocks in memory, about 4 kB each. */
const blocksMax = 4096;

/** Streams in memory, about 250 B each. */
const streamsMax = 200_000;

/** Creates an empty cache. A store that was replaced by an older one has other rows in their places. */
export function createReadCache(watch: (listener: (hint: Hint) => void) => unknown): ReadCache {
  const blocks = new LRUCache<string, Block>({ max: blocksMax });
  const streams = new LRUCache<number, StreamList>({
    maxSize: streamsMax,
    sizeCalculation: (list) => Math.max(1, list.streams.length),
  });
  watch(({ kind }) => {
    if (kind !== 'replaced') return;
    blocks.clear();
    streams.clear();
  });
  return { blocks, streams };
}
