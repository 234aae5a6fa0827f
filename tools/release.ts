import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildBinary } from './binary.ts';
import { git } from './git.ts';
import { npmProgram } from './npm.ts';
import { buildPackage, manifest } from './package.ts';
import { sbomText } from './sbom.ts';

/**
 * `npm run release`: makes the files of a release in `dist/` from a clean tree: package, executable for
 * this platform, SBOM and SHA256SUMS. Publishes nothing and sets no tag: it prints the commands.
 */

/**
 * Returns why a checkout must not be released; `undefined` when it may.
 *
 * @param folder of the checkout, with a slash at its end
 */
export function releaseViolation(folder: string, version: string): string | undefined {
  const changed = git(folder, ['status', '--porcelain', '--untracked-files=normal']);
  if (changed === undefined) {
    return `${folder} is no git checkout: release from a clone, because the tree must be known`;
  }
  if (changed !== '') {
    return `The tree has changes: commit or stash them first\n${changed}`;
  }
  const changelog = readFileSync(join(folder, 'CHANGELOG.md'), 'utf8');
  const headings = changelog.split('\n').filter((line) => line.startsWith('## '));
  if (!headings.some((line) => /^## \[?([^\s\]]+)/.exec(line)?.[1] === version)) {
    return `CHANGELOG.md has no heading for ${version}, the version in package.json: add "## ${version}" and a date`;
  }
  const tagged = git(folder, ['rev-list', '-n', '1', `refs/tags/v${version}`]);
  const head = git(folder, ['rev-parse', 'HEAD']);
  if (tagged !== undefined && tagged !== head) {
    return `The tag v${version} is at another commit (${tagged.slice(0, 12)}): raise the version in package.json, or check that commit out`;
  }
  return undefined;
}

/** Builds what is installed, so that must be what the lock file names. */
function packagesViolation(folder: string): string | undefined {
  const words = [npmProgram(), 'ls', '--all'];
  const { status, stderr } = spawnSync(process.execPath, words, { cwd: folder, encoding: 'utf8' });
  if (status === 0) return undefined;
  return `node_modules is not what package-lock.json names: run npm ci\n${stderr.trim()}`;
}

/** Makes the files of a release. The folder is emptied first. */
async function makeRelease(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await buildPackage(folder);
  await buildBinary(folder);
  await writeFile(join(folder, `leat-${manifest.version}.cdx.json`), sbomText());
  await writeFile(join(folder, 'SHA256SUMS'), sumsText(folder, (await readdir(folder)).toSorted()));
}

/** Returns a list that `sha256sum --check` reads. */
function sumsText(folder: string, names: readonly string[]): string {
  const lines = names.map((name) => {
    const hash = createHash('sha256')
      .update(readFileSync(join(folder, name)))
      .digest('hex');
    return `${hash}  ${name}\n`;
  });
  return lines.join('');
}

async function printRelease(folder: string): Promise<void> {
  const { version } = manifest;
  for (const name of (await readdir(folder)).toSorted()) {
    const { size } = await stat(join(folder, name));
    console.log(`${(size / 1_000_000).toFixed(1).padStart(8)} MB  dist/${name}`);
  }
  console.log(`
Next:
  git tag -a v${version} -m 'Leat ${version}' && git push origin v${version}
  npm publish ./dist/leat-${version}.tgz
and attach every file of dist/ to the release of the tag. npm publish is for packages that go to a registry.`);
}

if (import.meta.main) {
  const root = fileURLToPath(new URL('../', import.meta.url));
  const violation = releaseViolation(root, manifest.version) ?? packagesViolation(root);
  if (violation === undefined) {
    await makeRelease(join(root, 'dist'));
    await printRelease(join(root, 'dist'));
  } else {
    console.error(violation);
    process.exitCode = 1;
  }
}
