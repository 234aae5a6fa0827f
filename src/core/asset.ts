/**
 * Returns the URL of a file that is not a module: a migration, a part of the reference page. The
 * bundled program has all modules in one folder, and assets below it at their paths in `src/`.
 *
 * @param path relative to `src/`; that of a folder ends with a slash
 */
export function asset(path: string): URL {
  return new URL(isSource ? `../${path}` : path, import.meta.url);
}

/**
 * Returns the URL of the program of a worker thread. The bundle has it as JavaScript in the folder of
 * all modules.
 *
 * @param path of its source, relative to `src/`
 */
export function thread(path: string): URL {
  if (isSource) return asset(path);
  const name = path.slice(path.lastIndexOf('/') + 1).replace(/\.ts$/, '.js');
  return new URL(name, import.meta.url);
}

/** Returns the URL of the folder of the built console. The bundle has it in the folder of its modules. */
export function builtConsole(): URL {
  return new URL(isSource ? '../../build/console/' : 'console/', import.meta.url);
}

const isSource = import.meta.url.endsWith('.ts');
