import { cp, rm, writeFile } from 'node:fs/promises';
import { rolldown } from 'rolldown';

const sources = new URL('../src/', import.meta.url);

/** Entry points: the program and its threads. */
const programs = ['main.ts', 'api/event-thread.ts'];

/**
 * Bundles the program and its libraries into a few JavaScript files, with the assets: it starts in a
 * third of the time of the sources. The swagger-ui page is still read from `node_modules`, so the
 * folder must be inside the checkout.
 *
 * @param folder is emptied first
 * @returns the path of the program, `main.js`
 */
export async function bundleProgram(folder: URL): Promise<string> {
  await rm(folder, { recursive: true, force: true });
  const bundle = await rolldown({
    input: programs.map((path) => new URL(path, sources).pathname),
    platform: 'node',
    // No tree shaking: this version of the bundler removes calls whose only use is that they throw,
    // such as decodeURIComponent.
    treeshake: false,
    // A missing module fails the bundle instead of the start of the program.
    onLog: (_level, log) => {
      throw new Error(`main.ts cannot be bundled: ${log.message}`);
    },
  });
  await bundle.write({ dir: folder.pathname, format: 'esm', minify: false });
  await bundle.close();
  // Otherwise Node parses each file once more, to find out that it is a module.
  await writeFile(new URL('package.json', folder), '{ "type": "module" }\n');
  // Files that are not modules are read by name, by `src/core/asset.ts`.
  await cp(sources, folder, { recursive: true, filter: (path) => !path.endsWith('.ts') });
  return new URL('main.js', folder).pathname;
}
