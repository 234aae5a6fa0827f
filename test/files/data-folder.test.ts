import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, chown, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import type { RandomBytes } from '../../src/core/clock.ts';
import { StartRefused } from '../../src/core/errors.ts';
import {
  credentialsFile,
  writeCredentials,
  confirmSecretKeys,
  prepareSecretKeys,
  readPreparedKeys,
  readSecretKeys,
  writeSecretKeys,
  keepFormerKey,
} from '../../src/files/data-folder.ts';

const random: RandomBytes = (count) => randomBytes(count);
const credentials = { clientId: 'operator', clientSecret: 'secret-of-the-operator' };

/** As a first start does it. */
async function createKeys(folder: string): Promise<readonly Uint8Array[]> {
  const { keys } = await prepareSecretKeys(folder, random);
  await confirmSecretKeys(folder);
  return keys;
}

describe('secret keys', () => {
  test('a new key is there once, readable by its owner only, and leaves no other file', async (t) => {
    const folder = join(await freshFolder(t), 'data');
    const made = await createKeys(folder);
    assert.deepEqual(
      made.map((key) => key.length),
      [32],
    );
    assert.deepEqual(await readSecretKeys(folder), made);
    assert.deepEqual(await readdir(folder), ['secret.key']);
    assert.equal((await stat(join(folder, 'secret.key'))).mode & 0o777, 0o600);
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
  });

  const skip = process.getuid?.() === 0 ? false : 'only root can give files to another user';
  test(
    'what root writes into the folder of another user belongs to that user',
    { skip },
    async (t) => {
      const folder = await freshFolder(t);
      await chown(folder, 54_321, 54_322);
      await createKeys(folder);
      await writeSecretKeys(folder, [randomBytes(32)], random);
      await keepFormerKey(folder, { id: 'former', key: randomBytes(32) }, random);
      await writeCredentials(folder, { management: credentials }, random);
      const names = await readdir(folder);
      assert.deepEqual(names.toSorted(), ['bootstrap.json', 'secret.key', 'secret.key.former']);
      for (const name of names) {
        const { uid, gid, mode } = await stat(join(folder, name));
        assert.deepEqual([uid, gid, mode & 0o777], [54_321, 54_322, 0o600], name);
      }
    },
  );

  test('readSecretKeys: does not create the key', async (t) => {
    const folder = await freshFolder(t);
    assert.equal(await readSecretKeys(folder), undefined);
    assert.deepEqual(await readdir(folder), []);
    const made = await createKeys(folder);
    assert.deepEqual(await readSecretKeys(folder), made);
  });

  test('concurrent starts use one key', async (t) => {
    const folder = await freshFolder(t);
    const keys = await Promise.all(
      Array.from({ length: 8 }, () => prepareSecretKeys(folder, random)),
    );
    await Promise.all([confirmSecretKeys(folder), confirmSecretKeys(folder)]);
    const file = await readFile(join(folder, 'secret.key'), 'utf8');
    for (const [key = ''] of keys.map((each) => each.keys))
      assert.equal(Buffer.from(key).toString('base64'), file.trim());
    assert.deepEqual(await readdir(folder), ['secret.key']);
  });

  test('discard removes the key and the folders that the call made, and no others', async (t) => {
    const folder = await freshFolder(t);
    const inner = join(folder, 'a', 'b');
    const first = await prepareSecretKeys(inner, random);
    const second = await prepareSecretKeys(inner, random);
    await second.discard();
    assert.deepEqual(await readdir(inner), ['secret.key.new'], 'the first one made it');
    await first.discard();
    assert.deepEqual(await readdir(folder), []);
    const third = await prepareSecretKeys(inner, random);
    await writeFile(join(folder, 'a', 'other'), '');
    await third.discard();
    assert.deepEqual(await readdir(folder, { recursive: true }), ['a', 'a/other']);
  });

  test('an interrupted start leaves no key', async (t) => {
    const folder = await freshFolder(t);
    let left = 1;
    const cutOff: RandomBytes = (count) => {
      if (left === 0) throw new Error('power cut');
      left -= 1;
      return randomBytes(count);
    };
    await assert.rejects(prepareSecretKeys(folder, cutOff), /power cut/);
    assert.equal(await readPreparedKeys(folder), undefined);
    assert.equal((await prepareSecretKeys(folder, random)).keys.length, 1);
  });

  test('writeSecretKeys: two keys are read back in their order, readable by the owner only', async (t) => {
    const folder = await freshFolder(t);
    const keys = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
    await createKeys(folder);
    await writeSecretKeys(folder, keys, random);
    assert.deepEqual(await readSecretKeys(folder), keys);
    assert.deepEqual(await readdir(folder), ['secret.key']);
    assert.equal((await stat(join(folder, 'secret.key'))).mode & 0o777, 0o600);
  });

  test('keepFormerKey: keeps a file of the same name, and refuses one with another text', async (t) => {
    const folder = await freshFolder(t);
    const [key, other] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
    const path = await keepFormerKey(folder, { id: 'abc', key }, random);
    assert.equal(path, join(folder, 'secret.key.abc'));
    assert.equal(await keepFormerKey(folder, { id: 'abc', key }, random), path);
    await assert.rejects(
      keepFormerKey(folder, { id: 'abc', key: other }, random),
      refusal(/^LEAT_SECRET_KEY: \S+secret\.key\.abc does not hold key abc: move it away/),
    );
    assert.equal(await readFile(path, 'utf8'), `${Buffer.from(key).toString('base64')}\n`);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
  });

  for (const text of ['', 'c2hvcnQ=\n', `${'A'.repeat(43)}=x\n`, 'no key at all']) {
    test(`readSecretKeys refuses a file with ${JSON.stringify(text)}, and leaves it unchanged`, async (t) => {
      const folder = await freshFolder(t);
      for (const name of ['secret.key', 'secret.key.new']) {
        await writeFile(join(folder, name), text);
        const read = name === 'secret.key' ? readSecretKeys : readPreparedKeys;
        await assert.rejects(read(folder), refusal(/^LEAT_SECRET_KEY: \S+ does not/));
        assert.equal(await readFile(join(folder, name), 'utf8'), text);
      }
    });
  }

  test('prepareSecretKeys refuses a folder that is a file, in one line', async (t) => {
    const file = join(await freshFolder(t), 'file');
    await writeFile(file, '');
    for (const folder of [file, join(file, 'below')]) {
      await assert.rejects(
        prepareSecretKeys(folder, random),
        refusal(/^LEAT_STORE: the data folder /),
      );
    }
  });

  test('readSecretKeys refuses a key that cannot be read, in one line', async (t) => {
    const folder = await freshFolder(t);
    // A folder of that name cannot be read by any user, root included.
    await prepareSecretKeys(join(folder, 'secret.key'), random);
    await assert.rejects(readSecretKeys(folder), refusal(/^LEAT_STORE: the data folder /));
  });
});

describe('writeCredentials', () => {
  test('writeCredentials writes a file that only its owner can read, also over one with another mode', async (t) => {
    const folder = await freshFolder(t);
    const former = join(folder, 'bootstrap.json');
    await writeFile(former, '', { mode: 0o644 });
    await chmod(former, 0o644);
    const { ino } = await stat(former);

    await writeCredentials(folder, { management: credentials }, random);
    const file = credentialsFile(folder);
    assert.equal(file, former);
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), {
      client_id: credentials.clientId,
      client_secret: credentials.clientSecret,
    });
    const after = await stat(file);
    assert.equal(after.mode & 0o777, 0o600);
    assert.notEqual(
      after.ino,
      ino,
      'a process that has the former file open cannot read the new one',
    );
    assert.deepEqual(await readdir(folder), ['bootstrap.json']);
  });

  test('writeCredentials keeps the sample of the message API when the management client is added', async (t) => {
    const folder = await freshFolder(t);
    const sample = { clientId: 'messages-sample-1', clientSecret: 'secret-of-the-sample' };
    const sampleFields = { client_id: 'messages-sample-1', client_secret: 'secret-of-the-sample' };
    const read = async (): Promise<unknown> =>
      JSON.parse(await readFile(credentialsFile(folder), 'utf8'));

    await writeCredentials(folder, { sample }, random);
    assert.deepEqual(await read(), { messages_sample: sampleFields });
    await writeCredentials(folder, { management: credentials }, random);
    const { clientId: client_id, clientSecret: client_secret } = credentials;
    assert.deepEqual(await read(), { client_id, client_secret, messages_sample: sampleFields });
    await writeCredentials(folder, { sample }, random);
    assert.deepEqual(
      await read(),
      { messages_sample: sampleFields },
      'a sample belongs to another first start',
    );
    const [kept = ''] = (await readdir(folder)).filter((name) => name !== 'bootstrap.json');
    assert.match(await readFile(join(folder, kept), 'utf8'), new RegExp(client_secret));
  });

  for (const text of ['{"client_id":"other","client_secret":"secret"}', '{"mine":1}', 'no JSON']) {
    test(`writeCredentials keeps ${text} in a file of its own`, async (t) => {
      const folder = await freshFolder(t);
      await writeFile(credentialsFile(folder), text);
      for (const replaces of [undefined, 'another'])
        await writeCredentials(folder, { management: credentials, replaces }, random);
      const kept = (await readdir(folder)).filter((name) =>
        /^bootstrap\.json\.[0-9a-f]{16}$/.test(name),
      );
      const texts = kept.map((name) => readFile(join(folder, name), 'utf8'));
      assert.ok((await Promise.all(texts)).includes(text));
    });
  }

  test('writeCredentials keeps no secret that ends with the change', async (t) => {
    const folder = await freshFolder(t);
    await writeCredentials(folder, { management: credentials }, random);
    const replaces = credentials.clientId;
    await writeCredentials(
      folder,
      { management: { clientId: 'b', clientSecret: 's' }, replaces },
      random,
    );
    assert.deepEqual(await readdir(folder), ['bootstrap.json']);
  });

  for (const text of ['', 'no JSON', '[]', 'null', '7']) {
    test(`writeCredentials replaces a file with ${JSON.stringify(text)}`, async (t) => {
      const folder = await freshFolder(t);
      await writeFile(credentialsFile(folder), text);
      await writeCredentials(folder, { management: credentials }, random);
      const { clientId: client_id, clientSecret: client_secret } = credentials;
      const written: unknown = JSON.parse(await readFile(credentialsFile(folder), 'utf8'));
      assert.deepEqual(written, { client_id, client_secret });
    });
  }
});

async function freshFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-data-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Matches a `StartRefused` with a message of one line. */
function refusal(message: RegExp): (error: unknown) => boolean {
  return (error) =>
    error instanceof StartRefused && message.test(error.message) && !error.message.includes('\n');
}
