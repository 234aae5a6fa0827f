import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import type { RandomBytes } from '../../src/core/clock.ts';
import { StartRefused } from '../../src/core/errors.ts';
import {
  credentialsFile,
  keepCredentials,
  keptSecretKey,
  presentSecretKey,
} from '../../src/files/data-folder.ts';

const random: RandomBytes = (count) => randomBytes(count);
const credentials = { clientId: 'operator', clientSecret: 'secret-of-the-operator' };

describe('the secret key', () => {
  test('is made once, whole, for its owner alone, and nothing is left beside it', async (t) => {
    const folder = join(await freshFolder(t), 'data');
    const made = await keptSecretKey(folder, random);
    assert.equal(made.length, 32);
    assert.deepEqual(await keptSecretKey(folder, random), made);
    assert.deepEqual(await readdir(folder), ['secret.key']);
    assert.equal((await stat(join(folder, 'secret.key'))).mode & 0o777, 0o600);
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
  });

  test('is looked for without being made', async (t) => {
    const folder = await freshFolder(t);
    assert.equal(await presentSecretKey(folder), undefined);
    assert.deepEqual(await readdir(folder), []);
    const made = await keptSecretKey(folder, random);
    assert.deepEqual(await presentSecretKey(folder), made);
  });

  test('is one, however many starts make it at the same time', async (t) => {
    const folder = await freshFolder(t);
    const keys = await Promise.all(Array.from({ length: 8 }, () => keptSecretKey(folder, random)));
    const file = await readFile(join(folder, 'secret.key'), 'utf8');
    for (const key of keys) assert.equal(Buffer.from(key).toString('base64'), file.trim());
    assert.deepEqual(await readdir(folder), ['secret.key']);
  });

  test('is not there at all after a start that was cut off while making it', async (t) => {
    const folder = await freshFolder(t);
    let left = 1;
    const cutOff: RandomBytes = (count) => {
      if (left === 0) throw new Error('power cut');
      left -= 1;
      return randomBytes(count);
    };
    await assert.rejects(keptSecretKey(folder, cutOff), /power cut/);
    assert.equal((await keptSecretKey(folder, random)).length, 32);
  });

  for (const text of ['', 'c2hvcnQ=\n', `${'A'.repeat(43)}=x\n`, 'no key at all']) {
    test(`is refused when the file holds ${JSON.stringify(text)}, which stays`, async (t) => {
      const folder = await freshFolder(t);
      await writeFile(join(folder, 'secret.key'), text);
      await assert.rejects(
        keptSecretKey(folder, random),
        refusal(/^LEAT_SECRET_KEY: \S+ does not/),
      );
      assert.equal(await readFile(join(folder, 'secret.key'), 'utf8'), text);
    });
  }

  test('is refused in one line where the folder is a file', async (t) => {
    const file = join(await freshFolder(t), 'file');
    await writeFile(file, '');
    for (const folder of [file, join(file, 'below')]) {
      await assert.rejects(keptSecretKey(folder, random), refusal(/^LEAT_STORE: the data folder /));
    }
  });

  test('is refused in one line when it cannot be read', async (t) => {
    const folder = await freshFolder(t);
    await rm(join(folder, 'secret.key'), { force: true });
    // A folder of that name cannot be read by anybody, root included.
    await keptSecretKey(join(folder, 'secret.key'), random);
    await assert.rejects(keptSecretKey(folder, random), refusal(/^LEAT_STORE: the data folder /));
  });
});

describe('the credentials of the first start', () => {
  test('are never readable by others, whatever the mode of a former file', async (t) => {
    const folder = await freshFolder(t);
    const former = join(folder, 'bootstrap.json');
    await writeFile(former, 'former', { mode: 0o644 });
    await chmod(former, 0o644);
    const { ino } = await stat(former);

    await keepCredentials(folder, { management: credentials }, random);
    const file = credentialsFile(folder);
    assert.equal(file, former);
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), {
      client_id: credentials.clientId,
      client_secret: credentials.clientSecret,
    });
    const after = await stat(file);
    assert.equal(after.mode & 0o777, 0o600);
    assert.notEqual(after.ino, ino, 'who had the former file open reads nothing of the new one');
    assert.deepEqual(await readdir(folder), ['bootstrap.json']);
  });

  test('hold the sample of the message API too, which stays when the others come', async (t) => {
    const folder = await freshFolder(t);
    const sample = { clientId: 'messages-sample-1', clientSecret: 'secret-of-the-sample' };
    const below = { client_id: 'messages-sample-1', client_secret: 'secret-of-the-sample' };
    const read = async (): Promise<unknown> =>
      JSON.parse(await readFile(credentialsFile(folder), 'utf8'));

    await keepCredentials(folder, { sample }, random);
    assert.deepEqual(await read(), { messages_sample: below });
    await keepCredentials(folder, { management: credentials }, random);
    const { clientId: client_id, clientSecret: client_secret } = credentials;
    assert.deepEqual(await read(), { client_id, client_secret, messages_sample: below });
    await keepCredentials(folder, { sample }, random);
    assert.deepEqual(
      await read(),
      { messages_sample: below },
      'a sample is of another first start',
    );
  });

  for (const text of ['', 'no JSON', '[]', 'null', '7']) {
    test(`take the place of a file that holds ${JSON.stringify(text)}`, async (t) => {
      const folder = await freshFolder(t);
      await writeFile(credentialsFile(folder), text);
      await keepCredentials(folder, { management: credentials }, random);
      const { clientId: client_id, clientSecret: client_secret } = credentials;
      const kept: unknown = JSON.parse(await readFile(credentialsFile(folder), 'utf8'));
      assert.deepEqual(kept, { client_id, client_secret });
    });
  }
});

async function freshFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-data-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A refused start with a message of one line. */
function refusal(message: RegExp): (error: unknown) => boolean {
  return (error) =>
    error instanceof StartRefused && message.test(error.message) && !error.message.includes('\n');
}
