import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { nodeViolation } from '../../src/program/node-version.ts';
import { services } from '../../src/program/services.ts';
import { freePort, startFreshLeat } from '../helpers/leat.ts';
import {
  assertWithoutRegistry,
  configOf,
  instructionsOf,
  messagePort,
  read,
  readYaml,
  root,
  wordsOf,
} from './fixture.ts';

/** The Dockerfile against the repository and the program. There is no container engine in these tests. */
const instructions = instructionsOf(read('Dockerfile'));
const manifest = JSON.parse(read('package.json')) as {
  readonly bin: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
};
const textsOf = (name: string): string[] =>
  instructions.filter((each) => each.name === name).map(({ text }) => text);
const health = 'deploy/container/health.mjs';

describe('the Dockerfile', () => {
  test('every npm script that the Dockerfile runs is in package.json', () => {
    const scripts = textsOf('RUN').flatMap(
      (text) => /^npm run (?<name>\S+)$/.exec(text)?.[1] ?? [],
    );
    assert.deepEqual(scripts, ['package']);
    for (const name of scripts) assert.ok(manifest.scripts[name], name);
  });

  test('everything that the Dockerfile copies from the checkout exists and is not ignored', () => {
    const copied = textsOf('COPY').filter((text) => !text.startsWith('--from='));
    const sources = copied.flatMap((text) => text.split(' ').slice(0, -1));
    assert.deepEqual(sources, ['.', health]);
    for (const path of [
      health,
      'package.json',
      'package-lock.json',
      '.npmrc',
      'tsconfig.json',
      'src/main.ts',
    ]) {
      assert.ok(existsSync(`${root}${path}`), path);
      assert.ok(isInContext(path), `${path} is ignored`);
    }
  });

  test('every file that a script of npm names is in the build context', () => {
    for (const name of ['postinstall', 'prepare', 'package']) {
      const [, file] = /^node (?<file>\S+)/.exec(manifest.scripts[name] ?? '') ?? [];
      assert.ok(file !== undefined && isInContext(file), `${name}: ${file}`);
    }
  });

  test('secrets, data and the history are not in the build context', () => {
    for (const path of ['.env', 'data/leat.db', '.git/config', 'deploy/postgres/.env', 'test/x.ts'])
      assert.ok(!isInContext(path), path);
  });

  test('both stages use the Node that Leat needs, and name no registry', () => {
    const images = textsOf('FROM').map((text) => text.split(' ')[0] ?? '');
    assert.equal(images.length, 2);
    for (const image of images) {
      assertWithoutRegistry(image);
      assert.equal(nodeViolation(image.split(':')[1] ?? ''), undefined, image);
    }
  });

  test('the container runs a command of the package', () => {
    const [command = ''] = wordsOf(instructions, 'ENTRYPOINT');
    assert.ok(manifest.bin[command], command);
    const [service = ''] = wordsOf(instructions, 'CMD');
    assert.ok(services.has(service), service);
  });

  test('the settings of the image are accepted, and its ports are those of the program', () => {
    const pairs = textsOf('ENV').flatMap((text) => text.split(' ').map((pair) => pair.split('=')));
    const config = configOf(Object.fromEntries(pairs) as Record<string, string>);
    assert.deepEqual(textsOf('EXPOSE'), [`${config.port} ${messagePort()}`]);
    const [volume = ''] = textsOf('VOLUME');
    assert.ok(config.store.engine === 'sqlite' && config.store.file?.startsWith(`${volume}/`));
  });

  test('a login is stored where a container with a read-only root can write', () => {
    const pairs = textsOf('ENV').flatMap((text) => text.split(' '));
    const configHome = pairs.find((pair) => pair.startsWith('XDG_CONFIG_HOME='))?.split('=')[1];
    const { services: containers } = readYaml<{
      readonly services: { readonly leat: { readonly tmpfs: readonly string[] } };
    }>('compose.yaml');
    assert.ok(configHome !== undefined && containers.leat.tmpfs.includes(configHome));
  });

  test('the process is not root, by number, and owns the data folder', () => {
    const [user = ''] = textsOf('USER');
    assert.match(user, /^[1-9][0-9]*:[1-9][0-9]*$/);
    const [uid, gid] = user.split(':');
    assert.ok(
      textsOf('RUN').includes(
        `install --directory --owner=${uid} --group=${gid} --mode=0700 /data`,
      ),
    );
  });

  test('SIGTERM stops the container, which is the signal that drains', () => {
    assert.deepEqual(textsOf('STOPSIGNAL'), ['SIGTERM']);
  });
});

describe('the health check of the image', () => {
  test('the Dockerfile runs the file that it copies', () => {
    const [source, target] = (textsOf('COPY').find((text) => text.startsWith(health)) ?? '').split(
      ' ',
    );
    assert.equal(source, health);
    assert.deepEqual(wordsOf(instructions, 'HEALTHCHECK'), ['node', target]);
  });

  test('a running service is healthy and ready', { tags: ['long'] }, async (t) => {
    const leat = await startFreshLeat(t);
    const settings = { LEAT_PORT: String(leat.port) };
    assert.deepEqual(check(settings), { code: 0, output: '/healthz: 200\n' });
    assert.deepEqual(check(settings, '/readyz'), { code: 0, output: '/readyz: 200\n' });
  });

  test('a service on every address is healthy', async (t) => {
    const leat = await startFreshLeat(t, { LEAT_HOST: '0.0.0.0' });
    const settings = { LEAT_PORT: String(leat.port), LEAT_HOST: '0.0.0.0' };
    assert.equal(check(settings).code, 0);
  });

  test('a service that ends TLS is healthy, whatever name its certificate has', async (t) => {
    const leat = await startFreshLeat(t, { LEAT_TLS: 'local' });
    assert.equal(check({ LEAT_PORT: String(leat.port), LEAT_TLS: 'local' }).code, 0);
  });

  test(
    'settings of .env in the working directory count, and those of the environment unless they are empty',
    { tags: ['long'] },
    async (t) => {
      const leat = await startFreshLeat(t, { LEAT_TLS: 'local' });
      const folder = await mkdtemp(join(tmpdir(), 'leat-health-'));
      t.after(() => rm(folder, { recursive: true }));
      await writeFile(join(folder, '.env'), `LEAT_TLS=local\nLEAT_PORT=${leat.port}\n`);
      const settings = { LEAT_HOST: '127.0.0.1', LEAT_TLS: '' };
      assert.deepEqual(checkIn(folder, settings), { code: 0, output: '/healthz: 200\n' });
      assert.equal(checkIn(folder, { LEAT_PORT: String(await freePort()) }).code, 1);
    },
  );

  test('another status is unhealthy', async (t) => {
    const leat = await startFreshLeat(t);
    const settings = { LEAT_PORT: String(leat.port) };
    assert.deepEqual(check(settings, '/nothing'), { code: 1, output: '/nothing: 404\n' });
  });

  test('a port where nothing listens is unhealthy', async () => {
    const { code, output } = check({ LEAT_PORT: String(await freePort()) });
    assert.equal(code, 1);
    assert.match(output, /ECONNREFUSED/);
  });
});

interface Checked {
  readonly code: number | null;
  readonly output: string;
}

function check(env: Readonly<Record<string, string>>, ...words: readonly string[]): Checked {
  return checkIn(tmpdir(), env, ...words);
}

function checkIn(
  cwd: string,
  env: Readonly<Record<string, string>>,
  ...words: readonly string[]
): Checked {
  const options = { cwd, env, encoding: 'utf8' } as const;
  const { status, stdout } = spawnSync(process.execPath, [`${root}${health}`, ...words], options);
  return { code: status, output: stdout };
}

/** Returns whether .dockerignore leaves a path in the build context; it excludes all and lists exceptions. */
function isInContext(path: string): boolean {
  const [first, ...exceptions] = read('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  assert.equal(first, '*');
  return exceptions.some((line) => {
    assert.ok(line.startsWith('!'), line);
    const kept = line.slice(1);
    assert.ok(globSync(kept, { cwd: root }).length === 1, `${kept} exists`);
    return path === kept || path.startsWith(`${kept}/`);
  });
}
