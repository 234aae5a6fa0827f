/**
 * `postinstall`: checks that there is a Node for Leat, and links the one that npm has just installed as
 * `node_modules/.bin/node` where that is missing. npm 10 removes its link again together with the packages
 * of other platforms, which have the same; npm leaves a package out without an error when it cannot be
 * downloaded or is not the one of the lock file. Runs on the Node that runs npm, so in syntax of Node 20.
 */
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const majorMin = 26;
const root = fileURLToPath(new URL('..', import.meta.url));
const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const isWindows = process.platform === 'win32';
const link = join(root, 'node_modules', '.bin', isWindows ? 'node.cmd' : 'node');
const { optionalDependencies } = read(join(root, 'package.json'));

for (const name of Object.keys(optionalDependencies)) {
  const manifest = join(root, 'node_modules', name, 'package.json');
  const file = existsSync(manifest) ? read(manifest).bin?.node : undefined;
  if (file === undefined || existsSync(link)) continue;
  if (isWindows) writeFileSync(link, `@"%~dp0\\..\\${name}\\${file.replaceAll('/', '\\')}" %*\r\n`);
  else symlinkSync(join('..', name, file), link);
}

const { node } = process.versions;
if (!existsSync(link) && Number.parseInt(node, 10) < majorMin) {
  const platform = `${process.platform} ${process.arch}`;
  console.error(
    `Leat needs Node ${majorMin} and this is ${node}. npm has installed none for ${platform}: run npm ci again, and install Node ${majorMin} where npm has none.`,
  );
  process.exitCode = 1;
}
