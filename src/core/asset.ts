import { readdirSync, readFileSync } from 'node:fs';
import { getAssetKeys, getRawAsset, isSea } from 'node:sea';

/**
 * Files of the program that are not modules of its main thread: migrations, pages, threads. The checkout
 * has them next to the sources, the bundle in one folder, and the single executable inside itself.
 */

/** A folder of assets: the migrations of an engine, for example. */
export interface AssetFolder {
  /** Where it is, for messages. */
  readonly name: string;
  /** Returns the names of its files, sorted; empty when there is no such folder. */
  names(): string[];
  read(name: string): Buffer;
}

/**
 * Returns the content of an asset.
 *
 * @param path relative to `src/`; or that of a file of the built console (`console/…`) or of swagger-ui
 *   (`swagger-ui-dist/…`)
 */
export function asset(path: string): Buffer {
  return isSea() ? Buffer.from(getRawAsset(path)) : readFileSync(urlOf(path));
}

/** Returns a folder of assets. Its path is as for {@link asset} and ends with a slash. */
export function assetFolder(path: string): AssetFolder {
  if (!isSea()) return folderAt(urlOf(path));
  return {
    name: path,
    names: () =>
      getAssetKeys()
        .filter((key) => key.startsWith(path) && !key.includes('/', path.length))
        .map((key) => key.slice(path.length))
        .toSorted(),
    read: (name) => asset(path + name),
  };
}

/** Returns a folder of the file system. Its URL ends with a slash. */
export function folderAt(url: URL): AssetFolder {
  return {
    name: url.pathname,
    names: () => namesIn(url),
    read: (name) => readFileSync(new URL(name, url)),
  };
}

/** The program of a worker thread, for the constructor of `Worker`. */
export interface ThreadProgram {
  /** Its file or, with `eval`, its text. */
  readonly source: URL | string;
  readonly eval: boolean;
}

/**
 * Returns the program of a worker thread. The single executable has it as text.
 *
 * @param path of its source, relative to `src/`
 */
export function thread(path: string): ThreadProgram {
  if (isSource) return { source: urlOf(path), eval: false };
  const name = path.slice(path.lastIndexOf('/') + 1).replace(/\.ts$/, '.js');
  if (isSea()) return { source: asset(name).toString('utf8'), eval: true };
  return { source: urlOf(name), eval: false };
}

function urlOf(path: string): URL {
  if (!isSource) return new URL(path, import.meta.url);
  if (path.startsWith('console/')) return new URL(`../../build/${path}`, import.meta.url);
  if (path.startsWith('swagger-ui-dist/')) {
    const name = path.slice('swagger-ui-dist/'.length);
    return new URL(name, import.meta.resolve('swagger-ui-dist/package.json'));
  }
  return new URL(`../${path}`, import.meta.url);
}

function namesIn(folder: URL): string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** The modules of the bundle are JavaScript. */
const isSource = import.meta.url.endsWith('.ts');
