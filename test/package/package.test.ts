import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, realpathSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { services } from '../../src/program/services.ts';
import { buildPackage, manifest } from '../../tools/package.ts';
import { createHome, type Home, npm, run } from './fixture.ts';
import { deliversAfter, describeJourney } from './journey.ts';

/** The npm package: built, installed into an empty home without a network, and used there. */

const root = fileURLToPath(new URL('../../', import.meta.url));
const laterVersion = '999.0.0';

let folder: string;
let home: Home;
let tarball: string;
/** The package unpacked. */
let content: string;
let command: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leat-dist-'));
  home = await createHome();
  tarball = await buildPackage(folder);
  execFileSync('tar', ['-xzf', tarball, '-C', folder]);
  content = join(folder, 'package');
  await npm(home, ['install', '--global', tarball]);
  command = join(home.prefix, 'bin/leat');
});
after(async () => {
  await rm(folder, { recursive: true, force: true });
  await home.remove();
});

describe('the content of the package', () => {
  test('the package names no dependency and no script, and needs Node 26', () => {
    assert.deepEqual(JSON.parse(readFileSync(join(content, 'package.json'), 'utf8')), {
      name: 'leat',
      version: manifest.version,
      description: manifest.description,
      license: 'Apache-2.0',
      type: 'commonjs',
      bin: { leat: 'bin/leat.js' },
      engines: { node: '>=26' },
    });
  });

  test('the package has the licences of what it contains', () => {
    const text = readFileSync(join(content, 'THIRD_PARTY_LICENSES'), 'utf8');
    for (const name of ['fastify', 'preact', 'swagger-ui-dist', 'abstract-logging', 'zxcvbn']) {
      assert.match(text, new RegExp(`^${name}[ ,].*\\((?:MIT|Apache-2.0)\\)$`, 'm'));
    }
    assert.doesNotMatch(text, /^playwright/m);
    for (const name of ['README.md', 'CHANGELOG.md', 'LICENSE', 'docs/cli.md']) {
      assert.ok(existsSync(join(content, name)), name);
    }
  });

  test('no file of the package names a path of the machine that built it', () => {
    const paths = [root, realpathSync(root), homedir(), folder, tmpdir()].map((path) =>
      path.endsWith('/') ? path : `${path}/`,
    );
    const files = globSync('**/*', { cwd: content, withFileTypes: true });
    for (const file of files.filter((each) => each.isFile())) {
      const path = join(file.parentPath, file.name);
      const text = readFileSync(path, 'latin1');
      // Documentation shows commands with files in /tmp.
      const foreign = path.startsWith(join(content, 'docs')) ? paths.slice(0, -1) : paths;
      for (const name of foreign) {
        assert.ok(!text.includes(name), `${path} names ${name}`);
      }
    }
  });

  test('a source map leads from the bundle to the sources', () => {
    const map = JSON.parse(readFileSync(join(content, 'lib/main.js.map'), 'utf8')) as {
      readonly sources: readonly string[];
      readonly sourcesContent: readonly string[];
    };
    const index = map.sources.indexOf('../src/main.ts');
    assert.match(map.sourcesContent[index] ?? '', /^\/\*\* The `leat` program/m);
  });

  test('the same sources give the same bytes', async () => {
    const again = await buildPackage(join(folder, 'again'));
    assert.ok(readFileSync(again).equals(readFileSync(tarball)));
  });
});

describe('the launcher of the package', () => {
  const launcher = join(root, 'tools/launcher.cjs');

  test('the launcher gives every service the flags that bound its memory', () => {
    const listed = /var services = \[(.*)\]/.exec(readFileSync(launcher, 'utf8'))?.[1];
    const names = listed?.split(', ').map((name) => name.slice(1, -1)) ?? [];
    const visible = [...services].filter(([, { description }]) => description !== undefined);
    for (const [name] of visible) assert.ok(names.includes(name), name);
  });

  test('the launcher has no syntax that Node 6 does not know', () => {
    const code = readFileSync(launcher, 'utf8').replaceAll(/\/\*.*?\*\//gs, '');
    // Not a trailing comma among arguments either.
    assert.doesNotMatch(code, /=>|`|\b(?:const|let|class|async)\b|\?\.|\.\.\.|,\s*\)/);
  });

  test('on an older Node leat says what to do and exits with 1', async (t) => {
    const old = olderNode();
    if (old === undefined) return t.skip('PATH has no older Node');
    const { code, stdout, stderr } = await run(home, old, [command, 'start']);
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /^Leat needs Node 26 or newer, this is \d+\.\d+\.\d+ \(\/.+\): install Node 26 .+\n$/,
    );
  });

  test('where a process cannot be replaced, a child runs, receives signals and gives its exit code', async () => {
    const preload = ['--require', join(root, 'test/package/no-execve.cjs')];
    const { code, stderr } = await run(home, process.execPath, [...preload, command, 'start'], {
      LEAT_PORT: 'x',
    });
    assert.equal(code, 1);
    assert.match(stderr, /^LEAT_PORT: /m);
  });

  test('npx runs a command of the tarball', async () => {
    const words = ['exec', '--yes', `--package=${tarball}`, '--', 'leat', '--version'];
    assert.equal(await npm(home, words), `${manifest.version}\n`);
  });

  test('a command of the package knows its settings', async () => {
    const { code, stdout } = await run(home, command, ['config']);
    assert.equal(code, 0);
    assert.match(stdout, /LEAT_STORE/);
  });
});

describeJourney('the package', () => ({ home, command }));

describe('upgrade and removal of the package', () => {
  test('after an upgrade the data is there, and after the removal still', async () => {
    const later = await buildPackage(join(folder, 'later'), laterVersion);
    await deliversAfter({ home, command }, async () => {
      await npm(home, ['install', '--global', later]);
      assert.equal((await run(home, command, ['--version'])).stdout, `${laterVersion}\n`);
    });

    await npm(home, ['uninstall', '--global', 'leat']);
    assert.deepEqual(
      globSync('**/*', { cwd: home.prefix }).filter((path) => path.includes('leat')),
      [],
    );
    assert.ok(existsSync(join(home.data, 'leat.db')));
  });
});

/** Returns the path of another Node of PATH that is older than the one Leat needs. */
function olderNode(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return folders
    .map((each) => join(each, 'node'))
    .filter((path) => existsSync(path))
    .find((path) => {
      const version = execFileSync(path, ['-p', 'process.versions.node'], { encoding: 'utf8' });
      return Number.parseInt(version, 10) < 26;
    });
}
