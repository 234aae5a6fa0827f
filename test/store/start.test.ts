import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { keyIdOf } from '../../src/store/seal.ts';
import { formerMigration } from '../../src/store/engine/sqlite/schema.ts';
import { endWithProcess } from '../helpers/children.ts';

const program = new URL('process/keeper.ts', import.meta.url).pathname;
/** Root may write anywhere, so as root the refusals of a user are tested as `nobody`. */
const otherUser = process.getuid?.() === 0 ? 65_534 : undefined;
const locked = 'is in use by another process, stop that one or choose another file';
const unwritable = 'cannot be written, this user needs write access to the file and its folder';
const unopenable = 'cannot be opened, this user needs write access to the file and its folder';
const unlockable = 'cannot be locked, it can only be read or its file system has no locks';
const noDatabase =
  'is not a database, or its first page is damaged: choose another file or restore it';

describe('the first start', () => {
  test('first start: creates folder and file for this user only', async (t) => {
    const file = join(folderFor(t), 'new', 'data', 'leat.db');
    const keeper = await opened(t, file);
    assert.equal(statSync(join(file, '..')).mode & 0o777, 0o700);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(`${file}-wal`).mode & 0o777, 0o600);
    assert.equal(await keeper.close(), 0);
  });

  test('first start: a file: URI creates the file whose path it encodes', async (t) => {
    const folder = folderFor(t);
    const file = join(folder, 'a?b#c%', 'leat.db');
    const location = `file:${folder}/a%3Fb%23c%25/leat.db`;
    const keeper = await opened(t, file, 'open, 0 events', { location });
    assert.equal(statSync(file).mode & 0o777, 0o600);
    await assertRefused(t, file, `LEAT_STORE: ${file} ${locked}`, { location });
    assert.equal(await keeper.send('append'), 'appended 1');
    assert.equal(await keeper.close(), 0);
  });

  test('first start: kill -9 does no harm', async (t) => {
    const file = join(folderFor(t), 'leat.db');
    for (let round = 0; round < 3; round++) {
      const keeper = start(t, file);
      assert.equal(await keeper.line(), 'opening');
      await keeper.kill();
    }
    const keeper = await opened(t, file);
    assert.equal(await keeper.send('append'), 'appended 1');
    assert.equal(await keeper.close(), 0);
  });

  test(
    'first start: is refused on a full disk, and works once there is room',
    { tags: ['long'] },
    async (t) => {
      const file = join(folderFor(t), 'leat.db');
      for (const blocks of [0, 8, 64]) {
        const { code, lines } = await refused(t, file, { fileBlocksMax: blocks });
        assert.equal(code, 1);
        assert.equal(lines.length, 1);
        assert.match(lines[0] ?? '', /^LEAT_STORE: .*leat\.db cannot be .*disk I\/O error/);
      }
      const keeper = await opened(t, file);
      assert.equal(await keeper.send('append'), 'appended 1');
      assert.equal(await keeper.close(), 0);
    },
  );
});

describe('a second process', () => {
  test('second process: is refused while the first has the file, and the first continues', async (t) => {
    const file = join(folderFor(t), 'leat.db');
    const first = await opened(t, file);
    await assertRefused(t, file, `LEAT_STORE: ${file} ${locked}`);
    assert.equal(await first.send('append'), 'appended 1');
    assert.equal(await first.close(), 0);
  });

  test(
    'second process: finds all data after kill -9 of the first',
    { tags: ['long'] },
    async (t) => {
      const file = join(folderFor(t), 'leat.db');
      const first = await opened(t, file);
      assert.equal(await first.send('append'), 'appended 1');
      await first.kill();
      const second = await opened(t, file, 'open, 1 events');
      assert.equal(await second.send('append'), 'appended 2');
      assert.equal(await second.close(), 0);
    },
  );

  test('second process: a reader is refused by SQLite and disturbs nothing', async (t) => {
    const file = join(folderFor(t), 'leat.db');
    const keeper = await opened(t, file);
    const looker = new DatabaseSync(file, { readOnly: true });
    t.after(() => looker.close());
    const probe = () => looker.prepare('select * from tenants').all();
    assert.throws(probe, { message: 'database is locked' });
    assert.equal(await keeper.send('append'), 'appended 1');
    assert.equal(await keeper.close(), 0);
  });

  test('second process: a start waits for one that has the file for a moment', async (t) => {
    const file = join(folderFor(t), 'leat.db');
    assert.equal(await (await opened(t, file)).close(), 0);
    const looker = new DatabaseSync(file);
    looker.exec('begin immediate');
    const keeper = start(t, file);
    assert.equal(await keeper.line(), 'opening');
    looker.close();
    assert.equal(await keeper.line(), 'open, 0 events');
    assert.equal(await keeper.close(), 0);
  });
});

describe('a store that cannot be written', () => {
  test('unwritable store: a folder in which this user may not create the file', async (t) => {
    const folder = folderFor(t);
    chmodSync(folder, 0o500);
    const file = join(folder, 'leat.db');
    await assertRefused(t, file, `LEAT_STORE: ${file} ${unwritable}`, { uid: otherUser });
  });

  test(
    'unwritable store: a folder in which this user may not create another folder',
    { tags: ['long'] },
    async (t) => {
      const folder = folderFor(t);
      chmodSync(folder, 0o500);
      const file = join(folder, 'data', 'leat.db');
      await assertRefused(t, file, `LEAT_STORE: ${file} ${unwritable}`, { uid: otherUser });
    },
  );

  test(
    'unwritable store: a file whose folder allows no WAL next to it',
    { tags: ['long'] },
    async (t) => {
      const file = await storeFor(t);
      chmodSync(join(file, '..'), 0o500);
      await assertRefused(t, file, `LEAT_STORE: ${file} ${unwritable}`, { uid: otherUser });
    },
  );

  test('unwritable store: a file that this user may not read', { tags: ['long'] }, async (t) => {
    const file = await storeFor(t);
    chmodSync(file, 0o000);
    await assertRefused(t, file, `LEAT_STORE: ${file} ${unopenable}`, { uid: otherUser });
  });

  test('unwritable store: a file that this user may only read', async (t) => {
    const file = await storeFor(t);
    chmodSync(file, 0o400);
    await assertRefused(t, file, `LEAT_STORE: ${file} ${unlockable}`, { uid: otherUser });
  });

  test('unwritable store: a disk that is full at a later start', { tags: ['long'] }, async (t) => {
    const file = await storeFor(t);
    const message = `LEAT_STORE: ${file} cannot be read or written (disk I/O error), check the disk, its space and its quotas`;
    await assertRefused(t, file, message, { fileBlocksMax: 0 });
  });
});

describe('a path that is no store', () => {
  test('not a store: a folder', async (t) => {
    const folder = folderFor(t);
    await assertRefused(t, folder, `LEAT_STORE: ${folder} is a folder, name a file in it`);
  });

  test('not a store: a path through a file', async (t) => {
    const file = join(folderFor(t), 'notes.txt');
    writeFileSync(file, 'notes');
    for (const path of [join(file, 'leat.db'), join(file, 'data', 'leat.db')]) {
      await assertRefused(t, path, `LEAT_STORE: ${path} lies in something that is not a folder`);
    }
    assert.equal(readFileSync(file, 'utf8'), 'notes');
  });

  const strangers: Record<string, Buffer> = {
    'a text': Buffer.from('Dear diary,\n'.repeat(1000)),
    'one letter': Buffer.from('x'),
    'a short text': Buffer.from('Dear diary,\n'.repeat(10)),
    'a page of zeros': Buffer.alloc(4096),
  };
  for (const [what, bytes] of Object.entries(strangers)) {
    test(what, async (t) => {
      const file = join(folderFor(t), 'leat.db');
      writeFileSync(file, bytes);
      await assertRefused(t, file, `LEAT_STORE: ${file} ${noDatabase}`);
    });
  }

  for (const mode of ['delete', 'wal']) {
    test(`not a store: the database of another program, journal mode ${mode}`, async (t) => {
      const file = join(folderFor(t), 'photos.db');
      const other = new DatabaseSync(file);
      other.exec(`pragma journal_mode = ${mode}; create table photos (name text)`);
      other.close();
      const message = `LEAT_STORE: ${file} is the database of another program, choose another file`;
      await assertRefused(t, file, message);
    });
  }

  test('an empty file becomes a new store', async (t) => {
    const file = join(folderFor(t), 'leat.db');
    writeFileSync(file, '');
    const keeper = await opened(t, file);
    assert.equal(await keeper.close(), 0);
  });
});

describe('a store that does not fit', () => {
  test('a damaged first page is refused; repaired, the store opens', async (t) => {
    const file = await storeFor(t);
    const bytes = readFileSync(file);
    for (const [at, message] of [[0, noDatabase] as const, [16, noDatabase] as const]) {
      const damaged = Buffer.from(bytes);
      damaged.fill(0xff, at, at + 2);
      writeFileSync(file, damaged);
      await assertRefused(t, file, `LEAT_STORE: ${file} ${message}`);
    }
    writeFileSync(file, bytes);
    assert.equal(await (await opened(t, file, 'open, 1 events')).close(), 0);
  });

  test('a truncated file is refused', async (t) => {
    const file = await storeFor(t);
    truncateSync(file, 8192);
    await assertRefused(t, file, `LEAT_STORE: ${file} is damaged, restore it from a backup`);
  });

  test('another secret key is refused; with the right one the store opens', async (t) => {
    const file = await storeFor(t);
    const [id, other] = [1, 2].map((byte) => keyIdOf(Buffer.alloc(32, byte)));
    const message = `LEAT_SECRET_KEY: does not fit the secrets in ${file}, which key ${id} seals: set that key; this is key ${other}`;
    await assertRefused(t, file, message, { keyByte: 2 });
    assert.equal(await (await opened(t, file, 'open, 1 events')).close(), 0);
  });

  test('a store that a newer version has changed is refused', async (t) => {
    const file = await storeFor(t);
    change(file, "insert into leat_migrations values ('0999_future', 'unknown')");
    const message = `LEAT_STORE: ${file} was changed by a newer version of Leat (0999_future): run that version, or restore a backup from before it`;
    await assertRefused(t, file, message);
  });

  test('a store with different migrations is refused', async (t) => {
    const file = await storeFor(t);
    change(file, "update leat_migrations set checksum = 'other'");
    const message = `LEAT_STORE: ${file} was made by another edition of Leat (its 0047_baseline is not this one's 0047_baseline): run the edition that made it`;
    await assertRefused(t, file, message);
  });

  test('a store of a version before the first schema is refused, with the commit that migrates it', async (t) => {
    const file = await storeFor(t);
    change(file, "update leat_migrations set name = '0011_operator'");
    const message = `LEAT_STORE: ${file} was last used by an older version of Leat: start it once with commit a060e904, which migrates it (git checkout a060e904 && npm ci && npm start), stop that and start this version`;
    await assertRefused(t, file, message);
  });

  test('another secret key is refused before the former schema is adopted', async (t) => {
    const file = await storeFor(t);
    const { name, checksum } = formerMigration;
    change(file, `update leat_migrations set name = '${name}', checksum = '${checksum}'`);
    const [id, other] = [1, 2].map((byte) => keyIdOf(Buffer.alloc(32, byte)));
    const message = `LEAT_SECRET_KEY: does not fit the secrets in ${file}, which key ${id} seals: set that key; this is key ${other}`;
    await assertRefused(t, file, message, { keyByte: 2 });
    assert.equal(await (await opened(t, file, 'open, 1 events')).close(), 0);
    const again = await opened(t, file, 'open, 1 events');
    assert.equal(await again.send('append'), 'appended 2');
    assert.equal(await again.close(), 0);
  });
});

test('a disk that fills up while running: no acknowledged event is lost', async (t) => {
  const file = join(folderFor(t), 'leat.db');
  const keeper = await opened(t, file, 'open, 0 events', { fileBlocksMax: 4096 });
  const failure = /^StoreUnavailable: disk I\/O error after (\d+)$/;
  const head = failure.exec(await keeper.send('fill'))?.[1];
  assert.ok(Number(head) > 10, `${head} events`);
  assert.match(await keeper.send('fill'), failure, 'it still responds');
  await keeper.kill();
  const next = await opened(t, file, `open, ${head} events`);
  assert.equal(await next.send('append'), `appended ${Number(head) + 1}`);
  assert.equal(await next.close(), 0);
  assert.deepEqual(integrityOf(file), 'ok');
});

interface StartOptions {
  readonly location?: string | undefined;
  readonly keyByte?: number | undefined;
  /** Become this user after loading. */
  readonly uid?: number | undefined;
  /** No file may grow above this many blocks of 512 bytes. */
  readonly fileBlocksMax?: number | undefined;
}

/** A refused start must not change the file, nor create one next to it. */
async function assertRefused(
  t: TestContext,
  file: string,
  message: string,
  options: StartOptions = {},
): Promise<void> {
  const before = snapshot(file);
  const { code, lines } = await refused(t, file, options);
  assert.deepEqual(lines, [message]);
  assert.equal(code, 1);
  assert.deepEqual(snapshot(file), before);
}

async function refused(t: TestContext, file: string, options: StartOptions) {
  const keeper = start(t, file, options);
  assert.equal(await keeper.line(), 'opening');
  const lines = await keeper.rest();
  return { code: await keeper.close(), lines };
}

async function opened(
  t: TestContext,
  file: string,
  firstLine = 'open, 0 events',
  options: StartOptions = {},
): Promise<Keeper> {
  const keeper = start(t, file, options);
  assert.equal(await keeper.line(), 'opening');
  assert.equal(await keeper.line(), firstLine);
  return keeper;
}

type Keeper = ReturnType<typeof start>;

function start(t: TestContext, file: string, options: StartOptions = {}) {
  const { location = file, keyByte = 1, uid, fileBlocksMax = 'unlimited' } = options;
  const words = [process.execPath, program, `sqlite:${location}`, keyByte, uid ?? []];
  const shell = ['-c', 'ulimit -f "$0" && exec "$@"', fileBlocksMax, ...words.flat()];
  const child = spawn('/bin/sh', shell.map(String), {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  endWithProcess(child);
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const ended = once(child, 'close');
  const end = async (): Promise<number | null> => {
    await ended;
    return child.exitCode;
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode === null) child.kill('SIGKILL');
    await ended;
  };
  t.after(kill);
  const line = async (): Promise<string> => {
    const next = await lines.next();
    assert.ok(next.done !== true, 'the process has more output');
    return next.value;
  };
  return {
    line,
    kill,
    send: (word: string) => {
      child.stdin.write(`${word}\n`);
      return line();
    },
    /** Returns its output until it ends. */
    rest: async () => {
      child.stdin.end();
      const output: string[] = [];
      for (let next = await lines.next(); next.done !== true; next = await lines.next()) {
        output.push(next.value);
      }
      return output;
    },
    close: () => {
      child.stdin.end();
      return end();
    },
  };
}

/** Creates a folder that the other user owns. */
function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'leat-start-'));
  const inner = join(folder, 'inner');
  mkdirSync(inner);
  t.after(() => {
    chmodSync(inner, 0o700);
    rmSync(folder, { recursive: true });
  });
  if (otherUser !== undefined) {
    chmodSync(folder, 0o755);
    chownSync(inner, otherUser, otherUser);
  }
  return inner;
}

/** Returns the file of a store that was created and closed. */
async function storeFor(t: TestContext): Promise<string> {
  const file = join(folderFor(t), 'leat.db');
  const keeper = await opened(t, file);
  assert.equal(await keeper.send('append'), 'appended 1');
  assert.equal(await keeper.close(), 0);
  if (otherUser !== undefined) chownSync(file, otherUser, otherUser);
  return file;
}

function change(file: string, sql: string): void {
  const connection = new DatabaseSync(file);
  connection.exec(sql);
  connection.close();
}

function integrityOf(file: string): unknown {
  const connection = new DatabaseSync(file);
  const result = connection.prepare('pragma integrity_check').get()?.['integrity_check'];
  connection.close();
  return result;
}

function snapshot(file: string): unknown {
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return 'no file';
  const { mode } = statSync(file);
  chmodSync(file, 0o600);
  const bytes = readFileSync(file).toString('base64');
  chmodSync(file, mode);
  return { bytes, mode, wal: existsSync(`${file}-wal`) };
}
