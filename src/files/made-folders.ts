import { rmdirSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';

/**
 * Removes the folders that `mkdir(folder, { recursive: true })` made, as far as they are empty.
 *
 * @param first what that call returned: the outermost new folder; `undefined` when there was none
 */
export function removeMadeFolders(first: string | undefined, folder: string): void {
  if (first === undefined) return;
  const outer = dirname(resolve(first));
  for (let inner = resolve(folder); relative(outer, inner) !== ''; inner = dirname(inner)) {
    try {
      rmdirSync(inner);
    } catch {
      return;
    }
  }
}
