import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Rolldown } from 'vite';
import { packageFolders } from './licenses.ts';

/**
 * `npm run build`, and `prepare` of npm: builds the web console into `build/console`, unless the files
 * there were built from the same sources. `--watch` builds again at each change, for work on the console.
 */
const root = fileURLToPath(new URL('../', import.meta.url));
const sources = join(root, 'src/console');
const output = join(root, 'build/console');
const stampFile = join(output, 'stamp');

/** Bytes after gzip: of what the overview needs at first, and of all files. */
const budget = { firstView: 60_000, all: 130_000 };

/**
 * Pages that are opened one after the other share a file: small files compress badly, and each is a
 * request.
 */
const chunkGroups = [
  {
    name: 'frame',
    priority: 2,
    test: /\/node_modules\/(?!uplot\/)|\/console\/(?:parts\/(?!plot)|(?:main|shell|overview|stats)\.)/,
  },
  { name: 'events', priority: 1, test: /\/src\/console\/(?:event|live-events|tail)[^/]*$/ },
  { name: 'manage', test: /\/src\/console\/(?:access|log|user|node|setting)[^/]*$/ },
  { name: 'failures', test: /\/src\/console\/(?:failure|progress|redeliver|repair)[^/]*$/ },
  { name: 'stream', priority: 1, test: /\/src\/console\/(?:stream|attempts|filter|retry)[^/]*$/ },
];

const isWatching = process.argv.includes('--watch');
const stamp = stampOf();
if (!isWatching && isCurrent()) {
  console.log('The console is built already.');
} else {
  await build();
}

function isCurrent(): boolean {
  return existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp;
}

/** Returns a hash of everything that the result depends on. */
function stampOf(): string {
  const hash = createHash('sha256');
  const inputs = [
    ...globSync('**/*', { cwd: sources, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
    ...globSync('src/{core,schemas}/**/*.ts', { cwd: root }).map((path) => join(root, path)),
    join(root, 'package-lock.json'),
    fileURLToPath(import.meta.url),
    fileURLToPath(new URL('licenses.ts', import.meta.url)),
  ];
  for (const path of inputs.toSorted())
    hash.update(path.slice(root.length)).update(readFileSync(path));
  return hash.digest('hex');
}

async function build(): Promise<void> {
  const vite = await import('vite').catch(() => undefined);
  if (vite === undefined) return withoutVite();
  const startedAtMs = performance.now();
  const result = await vite.build({
    configFile: false,
    root: sources,
    base: '/console/',
    logLevel: 'warn',
    publicDir: false,
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
    build: {
      outDir: output,
      emptyOutDir: true,
      target: 'es2023',
      // Nothing inline: the policy of the pages forbids `data:` URLs and inline scripts.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      ...(isWatching ? { watch: {} } : {}),
      rolldownOptions: {
        input: join(sources, 'console.html'),
        output: { codeSplitting: { groups: chunkGroups } },
      },
    },
  });
  if (isWatching) return;
  const { output: files } = [result].flat()[0] as Rolldown.RolldownOutput;
  const sizes = await compress(files);
  report(files, sizes, performance.now() - startedAtMs);
  const modules = files.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
  await writeFile(join(output, 'packages'), `${packageFolders(modules, root).join('\n')}\n`);
  await writeFile(stampFile, stamp);
}

/** Packages for development may be absent where a checkout only runs: then the files must be there. */
function withoutVite(): void {
  if (existsSync(join(output, 'console.html'))) {
    console.log(
      'The console was built before; vite, which would build it again, is not installed.',
    );
    return;
  }
  console.error(
    'The console is not built, and vite, which builds it, is not installed: run npm ci without --omit=dev once, or copy build/console from another checkout.',
  );
  process.exitCode = 1;
}

type OutputFile = Rolldown.RolldownOutput['output'][number];

/** Writes each file also as brotli and gzip, which the server sends as they are. Returns the sizes after gzip. */
async function compress(files: readonly OutputFile[]): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  await Promise.all(
    files.map(async (file) => {
      const path = join(output, file.fileName);
      await mkdir(dirname(path), { recursive: true });
      const bytes = readFileSync(path);
      const zipped = await promisify(gzip)(bytes, { level: 9 });
      const params = {
        [constants.BROTLI_PARAM_QUALITY]: 11,
        [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      };
      await writeFile(`${path}.gz`, zipped);
      await writeFile(`${path}.br`, await promisify(brotliCompress)(bytes, { params }));
      sizes.set(file.fileName, zipped.length);
    }),
  );
  return sizes;
}

/** Prints the sizes. Fails the build, and leaves nothing that passes for one, beyond the budget. */
function report(
  files: readonly OutputFile[],
  sizes: ReadonlyMap<string, number>,
  durationMs: number,
): void {
  const sizeOf = (names: Iterable<string>): number =>
    [...names].reduce((sum, name) => sum + (sizes.get(name) ?? 0), 0);
  const needed = firstFiles(files);
  const firstView = sizeOf(needed);
  const all = sizeOf(sizes.keys());
  const kilobytes = (bytes: number): string => `${(bytes / 1000).toFixed(1)} kB`;
  console.log(
    `Built the console in ${(durationMs / 1000).toFixed(1)} s: first view ${kilobytes(firstView)} of ${kilobytes(budget.firstView)}, all ${sizes.size} files ${kilobytes(all)} of ${kilobytes(budget.all)} (gzip).`,
  );
  if (firstView <= budget.firstView && all <= budget.all) return;
  for (const [name, size] of sizes) console.error(`${kilobytes(size).padStart(9)}  ${name}`);
  throw new Error('The console is larger than its budget: see tools/build-console.ts.');
}

/** Returns the files that the overview needs: the page, its style, its script and what that imports. */
function firstFiles(files: readonly OutputFile[]): Set<string> {
  const chunks = new Map(files.map((file) => [file.fileName, file]));
  const needed = new Set<string>();
  const add = (name: string): void => {
    if (needed.has(name)) return;
    needed.add(name);
    const file = chunks.get(name);
    if (file?.type === 'chunk') file.imports.forEach(add);
  };
  for (const file of files) {
    const isFirst =
      file.type === 'chunk'
        ? file.moduleIds.some((id) => /\/(?:main|overview)\.tsx$/.test(id))
        : /\.(?:html|css|svg)$/.test(file.fileName);
    if (isFirst) add(file.fileName);
  }
  return needed;
}
