import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test, type TestContext } from 'node:test';
import { keyIdOf } from '../../src/store/seal.ts';
import {
  createTempStore,
  runLeat,
  type Running,
  startLeat,
  type TempStore,
  waitFor,
} from '../helpers/leat.ts';
import {
  addSealedStreams,
  beginRotation,
  openAll,
  type TestKey,
  testKey,
  withStore,
} from '../helpers/secrets.ts';
import { createStream, publish, startCountingReceiver } from '../helpers/traffic.ts';

/** `leat secrets rotate` as a process, on SQLite with and without a server. */

const [one, two] = [testKey(1), testKey(2)];
const newKey = '[0-9a-f]{12}';

describe('leat secrets rotate with a generated key', () => {
  test(
    'generated key: a running server changes it, keeps the former one aside and delivers on',
    { tags: ['long'] },
    async (t) => {
      const receiver = await startCountingReceiver(t);
      receiver.startRound();
      const tempStore = await tempStoreOf(t);
      const leat = await start(t, tempStore, generated);
      await createStream(leat, receiver.url, 'orders');
      const before = await keysIn(tempStore);
      const output = await rotate(tempStore, generated);
      assert.match(
        output,
        new RegExp(
          `^Sealed 3 values in 2 rows again with key ${newKey}\\. Key ${before[0]?.id} seals`,
        ),
      );
      const [key, ...others] = await keysIn(tempStore);
      assert.deepEqual(others, []);
      assert.notEqual(key?.id, before[0]?.id);
      const kept = join(tempStore.folder, `secret.key.${before[0]?.id}`);
      assert.equal((await readFile(kept, 'utf8')).trim(), before[0]?.text);
      for (const file of [kept, join(tempStore.folder, 'secret.key')]) {
        assert.equal(statSync(file).mode & 0o777, 0o600);
      }
      await receiver.waitForAll('an event', ['orders'], await publish(leat, 1));
      await createStream(leat, receiver.url, 'later');
      assert.equal(await leat.stop(), 0);

      const again = await start(t, tempStore, generated);
      await receiver.waitForAll('an event', ['orders', 'later'], await publish(again, 1));
      assert.match(await rotate(tempStore, generated), /Sealed 5 values in 3 rows again/);
    },
  );

  test(
    'generated key: kill -9 of the server at any moment leaves a store that starts, and the command ends the change',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      await (await start(t, tempStore, generated)).stop();
      const location = `sqlite:${tempStore.file}`;
      await withStore(location, await keysIn(tempStore), (store) => addSealedStreams(store, 1000));
      let leat = await start(t, tempStore, generated);
      let interrupted = 0;
      for (let round = 0; round < 3; round += 1) {
        const running = runLeat(['secrets', 'rotate'], settingsOf(tempStore, generated));
        await waitFor(
          'the second key in the file',
          async () => (await keysIn(tempStore)).length > 1,
        );
        await sleep(round * 20);
        await leat.kill();
        const { code } = await running;
        leat = await start(t, tempStore, generated);
        if (code === 0) continue;
        interrupted += 1;
        assert.doesNotMatch(await rotate(tempStore, generated), /opened with no key/);
      }
      assert.ok(interrupted > 0, 'some rounds were interrupted');
      await leat.stop();
      const last = await keysIn(tempStore);
      assert.equal(last.length, 1);
      assert.equal(await openAll(location, last), 1000);
    },
  );

  test('generated key: without its file nothing changes', { tags: ['long'] }, async (t) => {
    const tempStore = await tempStoreOf(t);
    const leat = await start(t, tempStore, generated);
    const [key] = await keysIn(tempStore);
    const file = join(tempStore.folder, 'secret.key');
    const text = await readFile(file, 'utf8');
    for (const spoil of [() => rm(file), () => writeFile(file, two.text)]) {
      await spoil();
      const { code, output } = await runLeat(
        ['secrets', 'rotate'],
        settingsOf(tempStore, generated),
      );
      assert.equal(code, 1);
      assert.match(output, new RegExp(`secret\\.key lacks key ${key?.id}, which seals stored`));
      await writeFile(file, text);
    }
    await leat.stop();
    assert.equal((await readdir(tempStore.folder)).filter((name) => /key/.test(name)).length, 1);
    await start(t, tempStore, generated);
  });

  test(
    'generated key: commands at the same time do one change each, or say that another one runs',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      await start(t, tempStore, generated);
      const ends = await Promise.all(
        [1, 2, 3].map(() => runLeat(['secrets', 'rotate'], settingsOf(tempStore, generated))),
      );
      assert.ok(ends.some(({ code }) => code === 0));
      for (const { code, output } of ends) {
        assert.match(
          output,
          code === 0 ? /^Sealed 1 value in 1 row again/ : /Another leat secrets rotate is running/,
        );
      }
      assert.equal((await keysIn(tempStore)).length, 1);
    },
  );
});

describe('leat secrets rotate with LEAT_SECRET_KEY', () => {
  test(
    'LEAT_SECRET_KEY: the server gets both keys, the command changes the key, the former one goes',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const alone = settings(one);
      const leat = await start(t, tempStore, alone);
      assert.equal(
        await rotate(tempStore, alone),
        `Key ${one.id} seals every stored secret: nothing to do.
To change it, put a new key in front: LEAT_SECRET_KEY=<new>,<present> on every node.
openssl rand -base64 32 prints one. Restart the nodes, then run leat secrets rotate again.
`,
      );
      await leat.stop();
      const both = settings(two, one);
      const second = await start(t, tempStore, both);
      assert.match(await doctor(tempStore, both), new RegExp(`key ${two.id} seals nothing yet`));
      assert.match(
        await rotate(tempStore, both),
        new RegExp(
          `^Sealed 1 value in 1 row again with key ${two.id}\\. Key ${one.id} seals nothing any more\\.\nRemove key ${one.id} from LEAT_SECRET_KEY`,
        ),
      );
      assert.match(
        await rotate(tempStore, both),
        /seals every stored secret: nothing to do\.\nRemove/,
      );
      assert.match(
        await doctor(tempStore, both),
        new RegExp(`key ${one.id} seals nothing any more`),
      );
      await second.stop();
      await refusedStart(tempStore, alone, new RegExp(`which key ${two.id} seals: set that key`));
      const third = await start(t, tempStore, settings(two));
      assert.match(await doctor(tempStore, settings(two)), new RegExp(`key ${two.id} seals all`));
      await third.stop();
    },
  );

  test(
    'LEAT_SECRET_KEY: an unfinished change is reported, needs both keys, and is ended by the command',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, location } = await startedOnce(t);
      await beginRotation(location, [two, one]);
      await refusedStart(
        tempStore,
        settings(two),
        new RegExp(`still sealed with key ${one.id}: set`),
      );
      await start(t, tempStore, settings(one, two));
      const status = await runLeat(['status'], settingsOf(tempStore, settings(one, two)));
      assert.match(status.output, /A change of LEAT_SECRET_KEY is unfinished: leat secrets rotate/);
      assert.match(
        await doctor(tempStore, settings(one, two)),
        new RegExp(`the change from key ${one.id} to key ${two.id} is unfinished`),
      );
      await rotate(tempStore, settings(one, two));
      const { output } = await runLeat(['status'], settingsOf(tempStore, settings(one, two)));
      assert.doesNotMatch(output, /unfinished/);
    },
  );

  test(
    'LEAT_SECRET_KEY: a backup taken in the middle opens with both keys, and the change is ended there',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, location } = await startedOnce(t);
      await withStore(location, [one], (store) => addSealedStreams(store, 250));
      await beginRotation(location, [two, one]);
      const server = await start(t, tempStore, settings(two, one));
      const file = join(tempStore.folder, 'backup.db');
      const backup = await runLeat(['backup', file], settingsOf(tempStore, settings(two, one)));
      assert.equal(backup.code, 0, backup.output);
      await rotate(tempStore, settings(two, one));
      await server.stop();

      const target = await tempStoreOf(t);
      const refused = await runLeat(['restore', file], settingsOf(target, settings(two)));
      assert.equal(refused.code, 1);
      assert.match(
        refused.output,
        /\nLEAT_SECRET_KEY: does not fit the secrets in \S+backup\.db, /,
      );
      assert.deepEqual(await readdir(target.folder), []);
      const restored = await runLeat(['restore', file], settingsOf(target, settings(two, one)));
      assert.equal(restored.code, 0, restored.output);
      await rotate(target, settings(two, one));
      assert.equal(await openAll(`sqlite:${target.file}`, [two]), 250);
    },
  );

  test('LEAT_SECRET_KEY: a store in memory is refused', async (t) => {
    const tempStore = await tempStoreOf(t);
    const env = { ...settingsOf(tempStore, settings(one)), LEAT_STORE: 'sqlite::memory:' };
    const { code, output } = await runLeat(['secrets', 'rotate'], env);
    assert.equal(code, 1);
    assert.equal(output, 'LEAT_STORE: a store in memory ends with its key.\n');
  });
});

type KeySetting = Readonly<Record<'LEAT_SECRET_KEY', string>>;

/** An empty text counts as not set. */
const generated: KeySetting = { LEAT_SECRET_KEY: '' };

function settings(...keys: readonly TestKey[]): KeySetting {
  return { LEAT_SECRET_KEY: keys.map(({ text }) => text).join(',') };
}

function settingsOf(tempStore: TempStore, key: KeySetting): Record<string, string> {
  return { LEAT_STORE: `sqlite:${tempStore.file}`, ...key };
}

async function tempStoreOf(t: TestContext): Promise<TempStore> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return tempStore;
}

async function start(t: TestContext, tempStore: TempStore, key: KeySetting): Promise<Running> {
  const leat = await startLeat(tempStore, key);
  t.after(() => leat.kill());
  return leat;
}

/** A store with a tenant, sealed with the first key. */
async function startedOnce(t: TestContext) {
  const tempStore = await tempStoreOf(t);
  await (await start(t, tempStore, settings(one))).stop();
  return { tempStore, location: `sqlite:${tempStore.file}` };
}

async function refusedStart(tempStore: TempStore, key: KeySetting, message: RegExp): Promise<void> {
  await assert.rejects(startLeat(tempStore, key), message);
}

async function rotate(tempStore: TempStore, key: KeySetting): Promise<string> {
  const { code, output } = await runLeat(['secrets', 'rotate'], settingsOf(tempStore, key));
  assert.equal(code, 0, output);
  return output;
}

async function doctor(tempStore: TempStore, key: KeySetting): Promise<string> {
  return (await runLeat(['doctor'], settingsOf(tempStore, key))).output;
}

/** Returns the generated keys, from `secret.key`. */
async function keysIn(tempStore: TempStore): Promise<TestKey[]> {
  const text = await readFile(join(tempStore.folder, 'secret.key'), 'utf8');
  return text
    .trim()
    .split(',')
    .map((key) => {
      const bytes = Buffer.from(key, 'base64');
      return { bytes, text: key, id: keyIdOf(bytes) };
    });
}
