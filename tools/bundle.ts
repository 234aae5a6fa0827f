import { readFileSync } from 'node:fs';
import { copyFile, glob as globFiles, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, posix, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown, type Plugin } from 'rolldown';

const root = new URL('../', import.meta.url);
const sources = new URL('src/', root);
/** The console, as `npm run build` has made it. */
const built = new URL('build/console/', root);

/** Entry points: the program and its threads. */
const programs = [
  'main.ts',
  'api/event-thread.ts',
  'delivery/threads/sender-thread.ts',
  'program/watchdog-thread.ts',
];

/** Files of swagger-ui that the reference page needs. */
const referenceFiles = ['swagger-ui.css', 'swagger-ui-bundle.js'];

/** The bundled program. */
export interface Bundle {
  /** Path of `main.js`. */
  readonly program: string;
  /** Paths of the modules that it consists of; that of the bundler's own module begins with NUL. */
  readonly modules: readonly string[];
}

/** The defaults are those of tests. */
export interface BundleOptions {
  /** The version that the program names; that of `package.json` by default. */
  readonly version?: string;
  /** Whether source maps are written. */
  readonly sourceMaps?: boolean;
  /** Whether each entry point is one file of ASCII that imports no other, as a single executable needs. */
  readonly alone?: boolean;
}

/**
 * Bundles the program and its libraries into a few JavaScript files, with the assets: it starts in a
 * quarter of the time of the sources. The folder may then be anywhere.
 *
 * The files are CommonJS: an `import` of a module of Node reads all its exports, and one of `node:http`
 * loads a whole HTTP client. Without that and the loader of ES modules a start takes a quarter less.
 *
 * The same sources give the same bytes, wherever the checkout and the folder are.
 *
 * @param folder is emptied first
 */
export async function bundleProgram(folder: URL, options: BundleOptions = {}): Promise<Bundle> {
  await rm(folder, { recursive: true, force: true });
  const groups = options.alone === true ? programs.map((path) => [path]) : [programs];
  const modules = new Set<string>();
  for (const group of groups) {
    for (const module of await bundleEntries(group, folder, options)) modules.add(module);
  }
  // Otherwise Node reads the kind of the files from the package, which has ES modules.
  await writeFile(new URL('package.json', folder), '{ "type": "commonjs" }\n');
  await copyAssets(folder);
  return { program: fileURLToPath(new URL('main.js', folder)), modules: [...modules].toSorted() };
}

async function bundleEntries(
  entries: readonly string[],
  folder: URL,
  { version, sourceMaps = false, alone = false }: BundleOptions,
): Promise<string[]> {
  const bundle = await rolldown({
    input: entries.map((path) => fileURLToPath(new URL(path, sources))),
    // Comments of the files name modules relative to it.
    cwd: fileURLToPath(root),
    platform: 'node',
    plugins: [awaitInFunction, ownPackage(version), ...(alone ? [inAscii] : [])],
    transform: { define: { 'import.meta.resolve': 'undefined' } },
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
  const { output } = await bundle.write({
    dir: fileURLToPath(folder),
    format: 'cjs',
    minify: false,
    sourcemap: sourceMaps,
    sourcemapPathTransform: inPackage,
    codeSplitting: !alone,
  });
  await bundle.close();
  return output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
}

/** Copies the files that are not modules: `src/core/asset.ts` reads them by name. */
async function copyAssets(folder: URL): Promise<void> {
  const migrations = ['store/migrations/*.sql', 'store/engine/*/migrations/*.sql'];
  for (const path of await glob([...migrations, 'api/reference/*'], sources)) {
    if (!path.endsWith('.ts')) await copyFileTo(new URL(path, sources), new URL(path, folder));
  }
  for (const path of await glob(['console.html*', 'assets/*'], built)) {
    await copyFileTo(new URL(path, built), new URL(`console/${path}`, folder));
  }
  for (const name of referenceFiles) {
    const path = `swagger-ui-dist/${name}`;
    await copyFileTo(new URL(import.meta.resolve(path)), new URL(path, folder));
  }
}

async function glob(patterns: readonly string[], folder: URL): Promise<string[]> {
  return (await Array.fromAsync(globFiles(patterns, { cwd: folder }))).toSorted();
}

async function copyFileTo(from: URL, to: URL): Promise<void> {
  await mkdir(new URL('.', to), { recursive: true });
  await copyFile(from, to);
}

/** Returns the path of a source in a source map: as if the checkout were the folder of the package. */
function inPackage(source: string, map: string): string {
  const path = relative(fileURLToPath(root), resolve(dirname(map), source));
  return posix.join('..', path.replaceAll('\\', '/'));
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
    cwd: fileURLToPath(root),
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

/**
 * Escapes other characters than those of ASCII: V8 keeps a text with any of them in two bytes a character,
 * and a single executable has its whole text in memory.
 */
const inAscii: Plugin = {
  name: 'in-ascii',
  renderChunk: (code) => {
    // Behind a backslash and in a raw template an escape would be another text.
    const unsafe = /(?:\\|String\.raw`[^`]*)[^\0-\x7f].*/.exec(code)?.[0];
    if (unsafe !== undefined) throw new Error(`cannot be written in ASCII: ${unsafe}`);
    return code.replaceAll(/[^\0-\x7f]/g, (unit) => {
      return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
    });
  },
};

/** Leaves everything but the version out of the bundled `package.json`. */
function ownPackage(version: string | undefined): Plugin {
  const file = fileURLToPath(new URL('package.json', root));
  return {
    name: 'own-package',
    load: (id) => {
      if (id !== file) return undefined;
      const manifest = JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string };
      return { code: JSON.stringify({ version: version ?? manifest.version }), moduleType: 'json' };
    },
  };
}

/**
 * Moves the statements at the end of `main.ts` into a function: CommonJS has no `await` outside of one,
 * and the bundler fails when it finds any. As in a module, the exit code is 13 when nothing is left to
 * run and the function has not ended.
 */
const awaitInFunction: Plugin = {
  name: 'await-in-function',
  transform: {
    filter: { id: /\/src\/main\.ts$/ },
    // Every statement stays on its line, so no source map is needed.
    handler: (code) => ({
      code: code.replace(/^try \{.*/ms, `${enterFunction} $& ${leaveFunction}`),
      map: null,
    }),
  },
};

const enterFunction =
  "const unsettled = () => process.exit(13); process.once('beforeExit', unsettled); void (async () => {";
const leaveFunction = "process.off('beforeExit', unsettled); })();";
