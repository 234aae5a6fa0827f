import { LRUCache } from 'lru-cache';
import type { Filter } from '../../core/filter-program.ts';
import { entriesAtMost } from '../../core/lru.ts';
import type { Hint } from '../port/hints.ts';
import type { Block } from './log-blocks.ts';
import type { StreamList } from './stream-list.ts';
import type { VersionedSubscriptions } from './stream-subscriptions.ts';

/** What reading streams keeps in memory, for a process. */
export interface ReadCache {
  /**
   * What is kept of the present store. A reading takes it before its first statement and uses no other
   * one: what it still reads of a store that was replaced meanwhile is not kept for the next one.
   */
  readonly present: Kept;
}

/** The caches of one store. Another store that replaces it gets caches of its own. */
export interface Kept {
  /** By tenant and number. */
  readonly blocks: LRUCache<string, Block>;
  /** By tenant. */
  readonly streams: LRUCache<number, StreamList>;
  /** By tenant and id of the stream. */
  readonly subscriptions: LRUCache<string, VersionedSubscriptions>;
  /** By text. */
  readonly filters: LRUCache<string, Filter>;
}

/** Blocks in memory, about 4 kB each. */
const blocksMax = 4096;

/** Streams in memory, about 250 B each. */
const streamsMax = 200_000;

/** Characters of subscriptions as JSON: about three times as many bytes of memory. */
const subscriptionsMax = 8 * 1024 * 1024;

/** Characters of filters as JSON: ten times as many bytes of memory, fifty for dozens of short comparisons. */
const filtersMax = 1024 * 1024;

/** Creates an empty cache. */
export function createReadCache(watch: (listener: (hint: Hint) => void) => unknown): ReadCache {
  let present: Kept = emptyCache();
  watch(({ kind }) => {
    // A store that was replaced by an older one has other rows in their places.
    if (kind === 'replaced') present = emptyCache();
    // A server that ended may have lost changes of streams that were read, though no events: the next
    // changes would have the same mark.
    if (kind === 'missed') present = { ...emptyCache(), blocks: present.blocks };
  });
  return {
    get present() {
      return present;
    },
  };
}

function emptyCache(): Kept {
  return {
    blocks: new LRUCache(entriesAtMost(blocksMax)),
    streams: new LRUCache({
      maxSize: streamsMax,
      sizeCalculation: (list) => Math.max(1, list.streams.length),
    }),
    subscriptions: new LRUCache({ maxSize: subscriptionsMax }),
    filters: new LRUCache({ maxSize: filtersMax }),
  };
}
