import { lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { join } from 'node:path';
import { isSea } from 'node:sea';
import { removeMadeFolders } from '../files/made-folders.ts';

/** Folder in the data folder. It may be deleted at any time. */
const name = 'compiled';

/** The compiled modules of a start. */
export interface CompiledModules {
  /** Absent when it cannot be used, or NODE_COMPILE_CACHE names another one. */
  readonly folder?: string;
  /** Keeps them, and removes those of other versions; call it once the start has not been refused. */
  keep(this: void): void;
}

const unused: CompiledModules = { keep: () => {} };

/**
 * Uses the compiled modules of this version in the data folder, from now on. The process writes them when it
 * ends; the next start then takes a third less. A process that ends before `keep` removes the folders that this
 * call made: a refused start leaves nothing in a folder, which may be that of another program.
 *
 * Never throws: a start without them is slower, and nothing else. Compiled modules are code, so
 * a folder that other users may write to is not used.
 */
export function useCompiledModules(dataFolder: string, version: string): CompiledModules {
  // The single executable contains its compiled modules.
  if (getCompileCacheDir() !== undefined || isSea()) return unused;
  const [all, folder] = [join(dataFolder, name), join(dataFolder, name, version)];
  let first: string | undefined;
  const discard = (): void => {
    // Node writes into the folder later, and does not when it is gone.
    if (first === undefined) return;
    try {
      rmSync(folder, { recursive: true, force: true });
    } catch {
      return;
    }
    removeMadeFolders(first, all);
  };
  try {
    first = mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (![all, folder].every(isOurs)) {
      discard();
      return unused;
    }
  } catch {
    // The store reports a data folder that cannot be used.
    return unused;
  }
  process.once('exit', discard);
  enableCompileCache(folder);
  return {
    folder,
    keep: () => {
      process.off('exit', discard);
      removeOthers(all, version);
    },
  };
}

/** Returns whether only the user of this process can write to a folder; Windows has its own rules. */
function isOurs(folder: string): boolean {
  const found = lstatSync(folder);
  if (!found.isDirectory()) return false;
  return process.getuid === undefined || (found.uid === process.getuid() && !(found.mode & 0o022));
}

function removeOthers(folder: string, version: string): void {
  try {
    for (const entry of readdirSync(folder)) {
      const path = join(folder, entry);
      if (entry !== version && isOfCompiledModules(path)) rmSync(path, { recursive: true });
    }
  } catch {
    // They take room, and nothing else.
  }
}

/** The folder of the store may be that of a program which has a folder of this name, too. */
function isOfCompiledModules(folder: string): boolean {
  if (!lstatSync(folder).isDirectory()) return false;
  const entries = readdirSync(folder);
  return entries.length > 0 && entries.every((entry) => ofNode.test(entry));
}

/** Node names its folders `v26.10.0-x64-<hash>-<user>` (module.enableCompileCache). */
const ofNode = /^v[0-9]+\.[0-9]+\.[0-9]+-[a-z0-9]+-[0-9a-f]+(?:-[0-9]+)?$/;
