import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bundleProgram } from './bundle.ts';
import { licensesText, nodePart } from './licenses.ts';
import { buildConsole, manifest, partsOf } from './package.ts';

/** The files of a single executable. */
interface Binary {
  readonly file: string;
  /** The licences of what is in it, Node included. */
  readonly licenses: string;
}

/**
 * Builds the single executable for this platform: Node, the bundled program and its assets in one file. The
 * same sources give the same bytes with the same Node.
 *
 * @param folder receives `leat-<version>-<platform>-<arch>`
 */
export async function buildBinary(folder: string): Promise<Binary> {
  const { platform, arch } = process;
  const name = `leat-${manifest.version}-${platform}-${arch}`;
  const file = join(folder, platform === 'win32' ? `${name}.exe` : name);
  const licenses = join(folder, `${name}.licenses.txt`);
  await mkdir(folder, { recursive: true });
  // In the same file system: the file has 170 MB.
  const stage = await mkdtemp(join(folder, 'stage-'));
  try {
    buildConsole();
    const bundled = pathToFileURL(join(stage, 'bundle/'));
    const { modules } = await bundleProgram(bundled, { alone: true });
    await writeFile(join(stage, 'sea.json'), JSON.stringify(configOf(join(stage, 'bundle'))));
    // Without a fixed seed the order of tables in the code cache differs each time.
    execFileSync(process.execPath, ['--random-seed=1', '--build-sea=sea.json'], { cwd: stage });
    // macOS runs signed code only; `-` is a signature without an identity.
    if (platform === 'darwin') execFileSync('codesign', ['--sign', '-', join(stage, 'leat')]);
    await writeFile(licenses, licensesText([nodePart(), ...partsOf(modules)]));
    await rename(join(stage, 'leat'), file);
    return { file, licenses };
  } finally {
    await rm(stage, { recursive: true, force: true });
  }
}

/**
 * Returns the configuration of `node --build-sea`. Its paths are relative to the folder above the bundle:
 * the executable contains that of `main`.
 */
function configOf(bundle: string): object {
  const files = globSync('**/*', { cwd: bundle, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(bundle.length + 1))
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path !== 'main.js' && path !== 'package.json')
    .toSorted();
  return {
    main: 'bundle/main.js',
    output: 'leat',
    disableExperimentalSEAWarning: true,
    // A start takes two thirds of the processor time: docs/adr/0051.
    useCodeCache: true,
    // As in tools/launcher.cjs.
    execArgv: ['--max-semi-space-size=16', '--v8-pool-size=0'],
    assets: Object.fromEntries(files.map((path) => [path, `bundle/${path}`])),
  };
}

if (import.meta.main) {
  const { file, licenses } = await buildBinary(fileURLToPath(new URL('../dist', import.meta.url)));
  const { size } = await stat(file);
  console.log(`${file}: ${(size / 1_000_000).toFixed(1)} MB\n${licenses}`);
}
