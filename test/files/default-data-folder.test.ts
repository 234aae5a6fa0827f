import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { defaultDataFolder, foreignFile, type Place } from '../../src/files/default-data-folder.ts';
import { leatProgram, runLeat } from '../helpers/leat.ts';

const linux: Place = { platform: 'linux', env: {}, home: '/home/ada', hasLocalFolder: false };

describe('the data folder without a setting', () => {
  const cases: [name: string, place: Place, folder: string][] = [
    ['a folder data is used', { ...linux, hasLocalFolder: true }, './data'],
    ['Linux', linux, '/home/ada/.local/share/leat'],
    ['XDG_DATA_HOME', { ...linux, env: { XDG_DATA_HOME: '/srv/data' } }, '/srv/data/leat'],
    [
      'a relative XDG_DATA_HOME counts as not set',
      { ...linux, env: { XDG_DATA_HOME: 'data' } },
      '/home/ada/.local/share/leat',
    ],
    [
      'an empty XDG_DATA_HOME counts as not set',
      { ...linux, env: { XDG_DATA_HOME: '' } },
      '/home/ada/.local/share/leat',
    ],
    ['macOS', { ...linux, platform: 'darwin' }, '/home/ada/Library/Application Support/leat'],
    [
      'Windows with LOCALAPPDATA',
      { ...linux, platform: 'win32', env: { LOCALAPPDATA: '/Users/ada/AppData/Local' } },
      '/Users/ada/AppData/Local/leat',
    ],
    ['a user without a home folder', { ...linux, home: undefined }, './data'],
    [
      'a user without a home folder, with XDG_DATA_HOME',
      { ...linux, home: undefined, env: { XDG_DATA_HOME: '/srv/data' } },
      '/srv/data/leat',
    ],
    ['Windows without it', { ...linux, platform: 'win32' }, '/home/ada/AppData/Local/leat'],
  ];
  for (const [name, place, folder] of cases) {
    test(`defaultDataFolder: ${name}: ${folder}`, () => {
      assert.equal(defaultDataFolder(place), folder);
    });
  }
});

describe('the data folder of the program', () => {
  test('leat config shows the place of the platform, and ./data where that is a folder', async (t) => {
    const cwd = emptyFolder(t);
    const home = emptyFolder(t);
    assert.equal(await storeShown(cwd, home), `sqlite:${home}/leat/leat.db`);
    writeFileSync(join(cwd, 'data'), 'a file is no data folder');
    assert.equal(await storeShown(cwd, home), `sqlite:${home}/leat/leat.db`);
    rmSync(join(cwd, 'data'));
    mkdirSync(join(cwd, 'data'));
    assert.equal(await storeShown(cwd, home), 'sqlite:./data/leat.db');
  });

  test('a folder data of another program gets nothing: the start names the ways out', async (t) => {
    const cwd = emptyFolder(t);
    const home = emptyFolder(t);
    mkdirSync(join(cwd, 'data'));
    writeFileSync(join(cwd, 'data', 'users.csv'), 'a,b');
    for (const words of [['start'], ['config']]) {
      const { code, output } = await runLeat(words, { XDG_DATA_HOME: home }, { cwd });
      assert.equal(code, 1, output);
      assert.equal(
        output,
        `LEAT_STORE: the folder ./data is of another program: it has users.csv and no leat.db. Set LEAT_STORE=sqlite:${home}/leat/leat.db, or LEAT_STORE=sqlite:./data/leat.db to use it all the same, or start Leat in another directory\n`,
      );
    }
    assert.deepEqual(readdirSync(join(cwd, 'data')), ['users.csv']);
    const env = { XDG_DATA_HOME: home, LEAT_STORE: 'sqlite:./data/leat.db' };
    const { code, output } = await runLeat(['config'], env, { cwd });
    assert.equal(code, 0, output);
  });

  test('foreignFile: hidden files count, those of file systems do not, and one file of Leat is enough', () => {
    for (const names of [[], ['.DS_Store', 'lost+found'], ['leat.db', 'a'], ['a', 'secret.key']])
      assert.equal(foreignFile(names), undefined);
    assert.equal(foreignFile(['lost+found', 'models', 'leat.db.bak']), 'models');
    for (const name of ['.gitkeep', '.gitignore', '.env']) assert.equal(foreignFile([name]), name);
  });

  test('foreignFile: the folder data of the checkout is one of Leat', () => {
    const folder = join(import.meta.dirname, '../../data');
    assert.equal(foreignFile(readdirSync(folder)), undefined);
    assert.ok(readdirSync(folder).includes('.leat'));
  });

  test('HOME counts as not set unless it is an absolute path, as everything else would be in the working directory', async (t) => {
    const cwd = emptyFolder(t);
    for (const home of ['', 'ada', './ada']) {
      const env = { HOME: home, XDG_DATA_HOME: '' };
      const { code, output } = await runLeat(['config'], env, { cwd });
      assert.equal(code, 0, output);
      const [, file] = /^LEAT_STORE +sqlite:(\S+) \(default\)/m.exec(output) ?? [];
      assert.equal(file, join(userInfo().homedir, '.local/share/leat/leat.db'));
    }
  });

  // As in a container with a user id that is not in its list of users.
  const skip = process.getuid?.() === 0 ? false : 'only root may start a process as another user';
  test(
    'a user without a home folder can start the program, and login names HOME',
    { skip },
    (t) => {
      const cwd = emptyFolder(t);
      chmodSync(cwd, 0o755);
      const leat = (...words: string[]) =>
        spawnSync(process.execPath, [leatProgram, ...words], {
          cwd,
          env: {},
          uid: 54_321,
          encoding: 'utf8',
        });
      const config = leat('config');
      assert.equal(config.status, 0, config.stderr);
      assert.match(config.stdout, /^LEAT_STORE +sqlite:\.\/data\/leat\.db \(default\)/m);
      const list = leat('streams', 'list');
      assert.equal(list.status, 1);
      assert.match(
        list.stderr,
        /^This user has no home folder, .+: set HOME or XDG_CONFIG_HOME to /,
      );
    },
  );

  test('a data folder that cannot be used is named with its whole path and a setting for another one', async (t) => {
    const cwd = emptyFolder(t);
    mkdirSync(join(cwd, 'data'));
    mkdirSync(join(cwd, 'data', 'secret.key'));
    const { code, output } = await runLeat(['serve'], {}, { cwd });
    assert.equal(code, 1);
    assert.match(
      output,
      new RegExp(
        `^LEAT_STORE: the data folder ${cwd}/data cannot be used \\(EISDIR.+\\): .+ for example LEAT_STORE=sqlite:/`,
      ),
    );
  });

  const storeShown = async (cwd: string, dataHome: string): Promise<string | undefined> => {
    const { code, output } = await runLeat(['config'], { XDG_DATA_HOME: dataHome }, { cwd });
    assert.equal(code, 0, output);
    return /^LEAT_STORE +(\S+) \(default\)/m.exec(output)?.[1];
  };
});

function emptyFolder(t: TestContext): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'leat-place-')));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}
