import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Returns the names of the files in a folder, each with a hash of its content. */
export async function contentOf(folder: string): Promise<string[]> {
  const names = await readdir(folder, { withFileTypes: true });
  const files = names.filter((name) => name.isFile()).map(({ name }) => name);
  return Promise.all(
    files.toSorted().map(async (name) => {
      const hash = createHash('sha256').update(await readFile(join(folder, name)));
      return `${name} ${hash.digest('hex')}`;
    }),
  );
}
