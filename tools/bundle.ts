import { cp, rm } from 'node:fs/promises';
import { rolldown } from 'rolldown';

const sources = new URL('../src/', import.meta.url);

/** The program itself, and those of its threads. */
const programs = ['main.ts', 'api/event-thread.ts'];

/**
 * Writes the program and its libraries as JavaScript of few files, with the assets beside them: it
 * starts in a third of the time that the sources take. The swagger-ui page is still read from
 * `node_modules`, so the folder must be below the checkout.
 *
 * @param folder is emptied first
 * @returns the path of the program, `main.js`
 */
export async function bundleProgram(folder: URL): Promise<string> {
  await rm(folder, { recursive: true, force: true });
  const bundle = await rolldown({
    input: programs.map((path) => new URL(path, sources).pathname),
    platform: 'node',
    // Nothing is removed: this version of the bundler takes a call that is made for what it throws,
    // as of decodeURIComponent, for one without use.
    treeshake: false,
    // A module that is not found is an error, and not left to the start of the program.
    onLog: (_level, log) => {
      throw new Error(`main.ts cannot be bundled: ${log.message}`);
    },
  });
  await bundle.write({ dir: folder.pathname, format: 'esm', minify: false });
  await bundle.close();
  // What is no module is read by name: `src/core/asset.ts` finds it.
  await cp(sources, folder, { recursive: true, filter: (path) => !path.endsWith('.ts') });
  return new URL('main.js', folder).pathname;
}
