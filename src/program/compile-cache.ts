import { lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { join } from 'node:path';
import { isSea } from 'node:sea';

/** Folder in the data folder. It may be deleted at any time. */
const name = 'compiled';

/**
 * Keeps the compiled modules of this version in the data folder, from now on, and removes those of other
 * versions. The process writes them when it ends; the next start then takes a third less.
 *
 * Never throws: a start without them is slower, and nothing else. Compiled modules are code, so
 * a folder that other users may write to is not used.
 *
 * @returns the folder; `undefined` when it cannot be used, or NODE_COMPILE_CACHE names another one
 */
export function keepCompiledModules(dataFolder: string, version: string): string | undefined {
  // The single executable contains its compiled modules.
  if (getCompileCacheDir() !== undefined || isSea()) return undefined;
  const folder = join(dataFolder, name, version);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (![join(dataFolder, name), folder].every(isOurs)) return undefined;
    removeOthers(join(dataFolder, name), version);
  } catch {
    // The store reports a data folder that cannot be used.
    return undefined;
  }
  enableCompileCache(folder);
  return folder;
}

/** Returns whether only the user of this process can write to a folder; Windows has its own rules. */
function isOurs(folder: string): boolean {
  const found = lstatSync(folder);
  if (!found.isDirectory()) return false;
  return process.getuid === undefined || (found.uid === process.getuid() && !(found.mode & 0o022));
}

function removeOthers(folder: string, version: string): void {
  for (const entry of readdirSync(folder)) {
    const path = join(folder, entry);
    if (entry !== version && isOfCompiledModules(path)) rmSync(path, { recursive: true });
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
