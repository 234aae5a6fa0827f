import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundleProgram } from './bundle.ts';
import { removeDeadLinks } from './document-links.ts';
import { documentsIn } from './documents.ts';
import { copiedParts, licensesText, packageFolders, type Part, readPart } from './licenses.ts';
import { runNpm } from './npm.ts';

const root = fileURLToPath(new URL('../', import.meta.url));

/** Far above the present size: a package that grows this much has something in it by mistake. */
const bytesMax = 15 * 1024 * 1024;

/** The parts of the manifest of the checkout that the package keeps. */
interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
}

export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest;

/**
 * Builds the npm package: the bundled program, its assets and documents, and no dependencies. The same
 * sources give the same bytes with the same Node and npm.
 *
 * @param folder receives `leat-<version>.tgz`
 * @param version that of `package.json` by default
 * @returns the path of the tarball
 */
export async function buildPackage(folder: string, version = manifest.version): Promise<string> {
  const stage = await mkdtemp(join(tmpdir(), 'leat-package-'));
  try {
    await fillPackage(stage, version);
    await mkdir(folder, { recursive: true });
    const [packed] = JSON.parse(
      runNpm(['pack', '--json', '--ignore-scripts', '--pack-destination', folder], stage),
    ) as { readonly filename: string }[];
    const file = join(folder, packed?.filename ?? '');
    const { size } = await stat(file);
    if (size > bytesMax) {
      await rm(file);
      throw new Error(`The package has ${size} bytes, more than ${bytesMax}: see tools/package.ts`);
    }
    return file;
  } finally {
    await rm(stage, { recursive: true, force: true });
  }
}

async function fillPackage(stage: string, version: string): Promise<void> {
  buildConsole();
  const { modules } = await bundleProgram(pathToFileURL(join(stage, 'lib/')), {
    version,
    sourceMaps: true,
  });
  for (const path of documentsIn(root)) await cp(join(root, path), join(stage, path));
  removeDeadLinks(stage);
  await mkdir(join(stage, 'bin'));
  await copyFile(join(root, 'tools/launcher.cjs'), join(stage, 'bin/leat.js'));
  await writeFile(join(stage, 'THIRD_PARTY_LICENSES'), licensesText(partsOf(modules)));
  await writeFile(join(stage, 'package.json'), manifestText(version));
  await setModes(stage);
}

/** Gives files the modes that they have with the usual umask: npm packs the modes that it finds. */
async function setModes(stage: string): Promise<void> {
  const entries = await readdir(stage, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const isProgram =
      ((await stat(path)).mode & 0o100) !== 0 || path === join(stage, 'bin/leat.js');
    await chmod(path, isProgram ? 0o755 : 0o644);
  }
}

/** Builds the console of the present sources, unless it is built already. */
export function buildConsole(): void {
  execFileSync(process.execPath, [join(root, 'tools/build-console.ts')], { stdio: 'inherit' });
}

/** Returns the work of others in a bundle with its console and reference page. */
export function partsOf(modules: readonly string[]): Part[] {
  const ofConsole = readFileSync(join(root, 'build/console/packages'), 'utf8').trim().split('\n');
  const folders = new Set([
    ...packageFolders(modules, root),
    ...ofConsole,
    'node_modules/swagger-ui-dist',
  ]);
  const parts = [...folders].map((folder) => readPart(join(root, folder)));
  return [...parts, ...copiedParts].toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
}

function keyOf({ name, version }: Part): string {
  return `${name} ${version}`;
}

function manifestText(version: string): string {
  const { name, description, license } = manifest;
  const bin = { leat: 'bin/leat.js' };
  const engines = { node: '>=26' };
  const content = { name, version, description, license, type: 'commonjs', bin, engines };
  return `${JSON.stringify(content, undefined, 2)}\n`;
}

if (import.meta.main) {
  const file = await buildPackage(join(root, 'dist'));
  const { size } = await stat(file);
  console.log(`${file}: ${(size / 1_000_000).toFixed(1)} MB`);
}
