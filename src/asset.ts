/**
 * Where a file that is no module is found: a migration, a part of the reference page. The one place
 * that knows, because the bundled program puts every module in one folder and keeps assets below it
 * as they lie here.
 *
 * @param path relative to `src/`; that of a folder ends with a slash
 */
export function asset(path: string): URL {
  return new URL(path, import.meta.url);
}
