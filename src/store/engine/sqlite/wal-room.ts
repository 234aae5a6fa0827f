import { letOthersGo } from '../../appender.ts';
import type { Database } from './database.ts';
import { MIB } from '../../../core/units.ts';

/** Characters of bodies of a commit that delays no other. */
const smallBodiesMax = 64 * 1024;
/**
 * Bodies between two checkpoints of the WAL. SQLite starts one automatically after 4 MiB, within a
 * commit, and it blocks the event loop for some 10 ms.
 */
const checkpointBodies = MIB;

/**
 * Keeps the WAL short where commits are large, and yields to other commits before each of those.
 */
export interface WalRoom {
  /**
   * Call it before a commit with this many characters of bodies; resolves at once where they are
   * few.
   */
  make(bodies: number): Promise<void>;
  /**
   * Call it after a commit of more than a part of an append, so that later commits do not pay for
   * it.
   */
  clear(): Promise<void>;
}

/** Creates it for the one connection that writes to the WAL. */
export function createWalRoom(db: Pick<Database, 'checkpoint'>): WalRoom {
  let sinceCheckpoint = 0;
  const clear = async (): Promise<void> => {
    if (sinceCheckpoint < checkpointBodies) return;
    await letOthersGo();
    sinceCheckpoint = 0;
    db.checkpoint();
  };
  return {
    make: async (bodies) => {
      if (bodies > smallBodiesMax) {
        await clear();
        await letOthersGo();
      }
      sinceCheckpoint += bodies;
    },
    clear,
  };
}
