/**
 * Where a file that is no module is found: a migration, a part of the reference page. The one place
 * that knows, because the bundled program puts every module in one folder and keeps assets below it
 * as they lie in `src/`.
 *
 * @param path relative to `src/`; that of a folder ends with a slash
 */
export function asset(path: string): URL {
  return new URL(isSource ? `../${path}` : path, import.meta.url);
}

/**
 * Where the program of a thread is found. The bundle has it as JavaScript next to the others, under
 * the last part of its name.
 *
 * @param path of its source, relative to `src/`
 */
export function thread(path: string): URL {
  if (isSource) return asset(path);
  const name = path.slice(path.lastIndexOf('/') + 1).replace(/\.ts$/, '.js');
  return new URL(name, import.meta.url);
}

const isSource = import.meta.url.endsWith('.ts');
