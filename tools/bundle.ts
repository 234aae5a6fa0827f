import { cp, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { rolldown, type Plugin } from 'rolldown';

const sources = new URL('../src/', import.meta.url);
/** The console, as `npm run build` has made it. */
const built = new URL('../build/console/', import.meta.url);

/** Entry points: the program and its threads. */
const programs = ['main.ts', 'api/event-thread.ts', 'delivery/threads/sender-thread.ts'];

/**
 * Bundles the program and its libraries into a few JavaScript files, with the assets: it starts in a
 * quarter of the time of the sources. The swagger-ui page is still read from `node_modules`, so the
 * folder must be inside the checkout.
 *
 * The files are CommonJS: an `import` of a module of Node reads all its exports, and one of `node:http`
 * loads a whole HTTP client. Without that and the loader of ES modules a start takes a quarter less.
 *
 * @param folder is emptied first
 * @returns the path of the program, `main.js`
 */
export async function bundleProgram(folder: URL): Promise<string> {
  await rm(folder, { recursive: true, force: true });
  const bundle = await rolldown({
    input: programs.map((path) => new URL(path, sources).pathname),
    platform: 'node',
    plugins: [awaitInFunction],
    transform: { define: { 'import.meta.resolve': resolveInCommonJs } },
    // No tree shaking: this version of the bundler removes calls whose only use is that they throw,
    // such as decodeURIComponent.
    treeshake: false,
    // A missing module fails the bundle instead of the start of the program.
    onLog: (_level, log) => {
      // A module that is loaded earlier than it could be.
      if (log.code === 'INEFFECTIVE_DYNAMIC_IMPORT') return;
      throw new Error(`main.ts cannot be bundled: ${log.message}`);
    },
  });
  await bundle.write({ dir: folder.pathname, format: 'cjs', minify: false });
  await bundle.close();
  // Otherwise Node reads the kind of the files from the package, which has ES modules.
  await writeFile(new URL('package.json', folder), '{ "type": "commonjs" }\n');
  // Files that are not modules are read by name, by `src/core/asset.ts`.
  const browsers = new URL('console', sources).pathname;
  await cp(sources, folder, {
    recursive: true,
    filter: (path) => !path.endsWith('.ts') && path !== browsers,
  });
  await cp(built, new URL('console/', folder), { recursive: true });
  return new URL('main.js', folder).pathname;
}

/**
 * Bundles packages of many small files, for processes that import the sources of the program.
 *
 * @param names of the packages or their exports
 * @param folder is emptied first
 * @returns the URL of the bundled file by name
 */
export async function bundlePackages(
  names: readonly string[],
  folder: URL,
): Promise<Record<string, string>> {
  await rm(folder, { recursive: true, force: true });
  const fileOf = (name: string): string => name.replaceAll('/', '-');
  const bundle = await rolldown({
    input: Object.fromEntries(names.map((name) => [fileOf(name), name])),
    cwd: fileURLToPath(new URL('../', sources)),
    platform: 'node',
    treeshake: false,
  });
  await bundle.write({ dir: folder.pathname, format: 'esm', minify: false });
  await bundle.close();
  await writeFile(new URL('package.json', folder), '{ "type": "module" }\n');
  return Object.fromEntries(
    names.map((name) => [name, new URL(`${fileOf(name)}.js`, folder).href]),
  );
}

const resolveInCommonJs = "((name) => require('node:url').pathToFileURL(require.resolve(name)))";

/**
 * Moves the statements at the end of `main.ts` into a function: CommonJS has no `await` outside of one,
 * and the bundler fails when it finds any. As in a module, the exit code is 13 when nothing is left to
 * run and the function has not ended.
 */
const awaitInFunction: Plugin = {
  name: 'await-in-function',
  transform: {
    filter: { id: /\/src\/main\.ts$/ },
    handler: (code) =>
      code.replace(
        /^try \{.*/ms,
        `
const unsettled = () => process.exit(13);
process.once('beforeExit', unsettled);
void (async () => {
  $&
  process.off('beforeExit', unsettled);
})();`,
      ),
  },
};
