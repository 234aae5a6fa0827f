import { LRUCache } from 'lru-cache';
import type { Hint } from '../port/hints.ts';
import type { Block } from './log-blocks.ts';
import type { StreamList } from './stream-list.ts';

/** What reading the states of streams keeps in memory, for a process. */
export interface ReadCache {
  /**
   * What is kept of the present store. A reading takes it before its first statement and uses no other
   * one: what it still reads of a store that was replaced meanwhile is not kept for the next one.
   */
  readonly present: Kept;
}

export interface Kept {
  /** By tenant and number. */
  readonly blocks: LRUCache<string, Block>;
  /** By tenant. */
  readonly streams: LRUCache<number, StreamList>;
}

/** Blocks in memory, about 4 kB each. */
const blocksMax = 4096;

/** Streams in memory, about 250 B each. */
const streamsMax = 200_000;

/** Creates an empty cache. */
export function createReadCache(watch: (listener: (hint: Hint) => void) => unknown): ReadCache {
  let present: Kept = { blocks: emptyBlocks(), streams: emptyStreams() };
  watch(({ kind }) => {
    // A store that was replaced by an older one has other rows in their places.
    if (kind === 'replaced') present = { blocks: emptyBlocks(), streams: emptyStreams() };
    // A server that ended may have lost changes of streams that were read, though no events: the next
    // changes would have the same mark.
    if (kind === 'missed') present = { ...present, streams: emptyStreams() };
  });
  return {
    get present() {
      return present;
    },
  };
}

function emptyBlocks(): Kept['blocks'] {
  return new LRUCache({ max: blocksMax });
}

function emptyStreams(): Kept['streams'] {
  return new LRUCache({
    maxSize: streamsMax,
    sizeCalculation: (list) => Math.max(1, list.streams.length),
  });
}
