import type { DatabaseSync } from 'node:sqlite';
import { createWalSync, everyMs, type WalSync } from '../../src/store/engine/sqlite/wal-sync.ts';
import type { OracleState } from './oracle.ts';
import type { Timeline } from './timeline.ts';

/** The tables and the expected state of one moment. */
export interface Copy {
  readonly tables: Uint8Array;
  readonly state: OracleState;
}

/**
 * The disk below the store. A durable commit is on it at once, with everything before; a relaxed one
 * with the next sync, which appends wait for. It is copied only shortly before a power cut, as that
 * takes time.
 */
export interface Disk {
  /** Watches the commits of a new connection and syncs them. */
  attach(connection: DatabaseSync): WalSync;
  /** Starts to copy the disk at each sync. */
  arm(): void;
  /** Returns the contents after a power cut, and stops to copy. */
  cut(): Copy | undefined;
}

/** The longest sync of the WAL. */
const syncMaxMs = 20;

/** The age of the oldest settlement that a power cut may lose: one sync may have to wait for another. */
export const lostMaxMs = everyMs + 2 * syncMaxMs;

export function createDisk(deps: {
  readonly timeline: Timeline;
  /** Copies the state once the running command has ended. */
  readonly copy: () => Promise<Copy>;
  /** Returns a random number from 0 to `max`. */
  readonly roll: (max: number) => number;
}): Disk {
  const { timeline, copy, roll } = deps;
  let isArmed = false;
  let onDisk: { readonly copied: Copy; readonly number: number } | undefined;
  let begun = 0;

  /** A sync covers the commits before its start; one that started earlier may end later. */
  const sync = async (takesMs: number): Promise<void> => {
    const number = (begun += 1);
    const copied = isArmed ? await copy() : undefined;
    if (takesMs > 0) await new Promise<void>((resolve) => timeline.after(takesMs, resolve));
    if (!isArmed || copied === undefined || number < (onDisk?.number ?? 0)) return;
    onDisk = { copied, number };
  };
  return {
    attach: (connection) => {
      const exec = connection.exec.bind(connection);
      let mode = 'full';
      connection.exec = (sql) => {
        exec(sql);
        mode = /^pragma synchronous = (\w+)/.exec(sql)?.[1] ?? mode;
        if (sql === 'commit' && mode === 'full') void sync(0);
      };
      const raise = (error?: unknown): never => {
        throw error;
      };
      return createWalSync({
        clock: timeline,
        sync: () => sync(roll(syncMaxMs)),
        repair: raise,
        report: raise,
      });
    },
    arm: () => {
      isArmed = true;
    },
    cut: () => {
      const left = onDisk?.copied;
      onDisk = undefined;
      isArmed = false;
      return left;
    },
  };
}
