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
import { referencesIn } from '../helpers/references.ts';
import { createHome, type Home, npm, run, startProgram } from './fixture.ts';
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
  test(
    'the package names no dependency and no script, and needs Node 26',
    { tags: ['long'] },
    () => {
      assert.deepEqual(JSON.parse(readFileSync(join(content, 'package.json'), 'utf8')), {
        name: 'leat',
        version: manifest.version,
        description: manifest.description,
        license: 'Apache-2.0',
        type: 'commonjs',
        bin: { leat: 'bin/leat.js' },
        engines: { node: '>=26' },
      });
    },
  );

  test(
    'every link of a document in the package leads to a file of the package',
    { tags: ['long'] },
    () => {
      const documents = globSync('**/*.md', { cwd: content });
      assert.ok(documents.includes('README.md') && documents.includes('docs/production.md'));
      for (const document of documents) {
        const text = readFileSync(join(content, document), 'utf8');
        for (const { path } of referencesIn(document, text.replaceAll('`', ''))) {
          assert.ok(existsSync(join(content, path)), `${document} links to ${path}`);
        }
      }
    },
  );

  test('the package has the licences of what it contains', { tags: ['long'] }, () => {
    const text = readFileSync(join(content, 'THIRD_PARTY_LICENSES'), 'utf8');
    for (const name of ['fastify', 'preact', 'swagger-ui-dist', 'abstract-logging', 'zxcvbn']) {
      assert.match(text, new RegExp(`^${name}[ ,].*\\((?:MIT|Apache-2.0)\\)$`, 'm'));
    }
    assert.doesNotMatch(text, /^playwright/m);
    for (const name of ['README.md', 'CHANGELOG.md', 'LICENSE', 'docs/cli.md']) {
      assert.ok(existsSync(join(content, name)), name);
    }
  });

  test(
    'no file of the package names a path of the machine that built it',
    { tags: ['long'] },
    () => {
      const paths = [root, realpathSync(root), homedir(), folder, tmpdir()].map((path) =>
        path.endsWith('/') ? path : `${path}/`,
      );
      const files = globSync('**/*', { cwd: content, withFileTypes: true });
      for (const file of files.filter((each) => each.isFile())) {
        const path = join(file.parentPath, file.name);
        const text = readFileSync(path, 'latin1');
        // Documents show commands with files in /tmp.
        const isProgram = ['lib', 'bin'].some((each) => path.startsWith(join(content, each)));
        const foreign = isProgram ? paths : paths.slice(0, 2);
        for (const name of foreign) {
          assert.ok(!text.includes(name), `${path} names ${name}`);
        }
      }
    },
  );

  test('a source map leads from the bundle to the sources', { tags: ['long'] }, () => {
    const map = JSON.parse(readFileSync(join(content, 'lib/main.js.map'), 'utf8')) as {
      readonly sources: readonly string[];
      readonly sourcesContent: readonly string[];
    };
    const index = map.sources.indexOf('../src/main.ts');
    assert.match(map.sourcesContent[index] ?? '', /^\/\*\* The `leat` program/m);
  });

  test('the same sources give the same bytes, with any umask', { tags: ['long'] }, async (t) => {
    const mask = process.umask(0o077);
    t.after(() => process.umask(mask));
    const again = await buildPackage(join(folder, 'again'));
    assert.ok(readFileSync(again).equals(readFileSync(tarball)));
  });
});

describe('the launcher of the package', () => {
  const launcher = join(root, 'tools/launcher.cjs');

  test(
    'the launcher gives every service the flags that bound its memory',
    { tags: ['long'] },
    () => {
      const listed = /var services = \[(.*)\]/.exec(readFileSync(launcher, 'utf8'))?.[1];
      const names = listed?.split(', ').map((name) => name.slice(1, -1)) ?? [];
      const visible = [...services].filter(([, { description }]) => description !== undefined);
      for (const [name] of visible) assert.ok(names.includes(name), name);
    },
  );

  test('the launcher has no syntax that Node 6 does not know', { tags: ['long'] }, () => {
    const code = readFileSync(launcher, 'utf8').replaceAll(/\/\*.*?\*\//gs, '');
    // Not a trailing comma among arguments either.
    assert.doesNotMatch(code, /=>|`|\b(?:const|let|class|async)\b|\?\.|\.\.\.|,\s*\)/);
  });

  test('on an older Node leat says what to do and exits with 1', { tags: ['long'] }, async (t) => {
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

  test(
    'where a process cannot be replaced, leat runs as a child, which SIGTERM ends',
    { tags: ['long'] },
    async (t) => {
      const settings = {
        NODE_OPTIONS: `--require=${join(root, 'test/package/no-execve.cjs')}`,
        XDG_DATA_HOME: join(folder, 'child-data'),
        HOME: join(folder, 'child-data'),
      };
      const leat = await startProgram(home, command, settings);
      t.after(() => leat.child.kill('SIGKILL'));
      assert.equal(await leat.stop(), 0, leat.output());
      const words = ['start'];
      const { code, stderr } = await run(home, command, words, { ...settings, LEAT_PORT: 'x' });
      assert.equal(code, 1);
      assert.match(stderr, /^LEAT_PORT: /m);
    },
  );

  test('npx runs a command of the tarball', { tags: ['long'] }, async () => {
    const words = ['exec', '--yes', `--package=${tarball}`, '--', 'leat', '--version'];
    assert.equal(await npm(home, words), `${manifest.version}\n`);
  });

  test('a command of the package knows its settings', { tags: ['long'] }, async () => {
    const { code, stdout } = await run(home, command, ['config']);
    assert.equal(code, 0);
    assert.ok(stdout.includes(home.data), stdout);
  });
});

describeJourney('the package', () => ({ home, command }));

test(
  'the package: an upgrade delivers what was published before it, and the removal keeps the data',
  { tags: ['long'] },
  async (t) => {
    const own = await createHome();
    t.after(own.remove);
    const leat = join(own.prefix, 'bin/leat');
    await npm(own, ['install', '--global', tarball]);
    await deliversAfter({ home: own, command: leat }, async () => {
      const later = await buildPackage(join(folder, 'later'), laterVersion);
      await npm(own, ['install', '--global', later]);
      assert.equal((await run(own, leat, ['--version'])).stdout, `${laterVersion}\n`);
    });

    await npm(own, ['uninstall', '--global', 'leat']);
    const files = globSync('**/*', { cwd: own.prefix });
    assert.deepEqual(
      files.filter((path) => path.includes('leat')),
      [],
    );
    assert.ok(existsSync(join(own.data, 'leat.db')));
  },
);

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
