import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { processFindings } from '../../src/operator/process-findings.ts';
import { endWithProcess } from '../helpers/children.ts';
import { doctor, doctorEnvironment, textsOf } from '../helpers/doctor.ts';
import {
  compileCache,
  createTempStore,
  leatProgram,
  startLeat,
  type TempStore,
} from '../helpers/leat.ts';
import { publish } from '../helpers/traffic.ts';

/** What `leat doctor` finds in settings, files and limits before others use a service. */

describe('leat doctor: settings of a production service', () => {
  test('settings that are right for production have no finding', async (t) => {
    const tempStore = await tempStoreOf(t);
    const { findings } = await doctor(tempStore, {
      LEAT_HOST: '10.0.0.11',
      LEAT_PUBLIC_URL: 'https://events.example.com',
      LEAT_TRUST_PROXY: '10.0.0.5,fd00:1::/64',
      LEAT_EGRESS_ALLOW: '10.20.0.0/16,fd00:2::/64',
      LEAT_METRICS_PORT: '9090',
    });
    assert.deepEqual(textsOf(findings, 'address'), [
      'ok: events.example.com, at 10.0.0.11 port 8080',
    ]);
    assert.deepEqual(textsOf(findings, 'proxies'), []);
    assert.deepEqual(textsOf(findings, 'tls'), ['ok: ends at the proxy of LEAT_TRUST_PROXY']);
    assert.deepEqual(textsOf(findings, 'receivers'), [
      'ok: no enabled stream sends to the network',
    ]);
    assert.deepEqual(textsOf(findings, 'endpoints'), ['ok: new ones have to be https://']);
    assert.deepEqual(textsOf(findings, 'secret key'), ['ok: is in LEAT_SECRET_KEY']);
    assert.deepEqual(textsOf(findings, 'metrics'), ['ok: at 127.0.0.1 port 9090']);
  });

  test(
    'another domain than that of the first tenant is a warning before a start changes it',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const leat = await startLeat(tempStore);
      await leat.stop();
      const settings = { LEAT_PORT: String(leat.port) };
      assert.deepEqual(textsOf((await doctor(tempStore, settings)).findings, 'domain'), []);
      const LEAT_PUBLIC_URL = 'https://events.example.com';
      const { findings } = await doctor(tempStore, { ...settings, LEAT_PUBLIC_URL });
      assert.deepEqual(textsOf(findings, 'domain'), [
        `warn: the first tenant is at localhost:${leat.port}, but these settings have events.example.com`,
      ]);
    },
  );

  test('settings of a trial are findings with a fix when other machines are served', async (t) => {
    const tempStore = await tempStoreOf(t);
    const { code, findings } = await doctor(tempStore, {
      LEAT_SECRET_KEY: '',
      LEAT_HOST: '0.0.0.0',
      LEAT_TRUST_PROXY: '0.0.0.0/0,10.0.0.0/8',
      LEAT_EGRESS_ALLOW: '169.254.0.0/16,127.0.0.1,10.0.0.0/8,10.20.0.0/16',
      LEAT_ALLOW_HTTP_ENDPOINTS: 'true',
    });
    assert.equal(code, 1);
    assert.ok(findings.every(({ level, next }) => level === 'ok' || (next ?? '') !== ''));
    assert.deepEqual(textsOf(findings, 'address'), [
      'bad: clients of other machines are served, but the first tenant is at localhost:8080',
    ]);
    assert.deepEqual(textsOf(findings, 'proxies'), [
      'bad: LEAT_TRUST_PROXY has 0.0.0.0/0: nearly everybody may claim any address of a client',
    ]);
    const allows = (text: string, what: string): string =>
      `LEAT_EGRESS_ALLOW has ${text}: webhooks may be sent to ${what}`;
    assert.deepEqual(
      textsOf(findings, 'egress').filter((line) => line.includes('EGRESS')),
      [
        `bad: ${allows('169.254.0.0/16', 'the metadata service of a cloud')}`,
        `warn: ${allows('127.0.0.1', 'every service of this machine')}`,
        `warn: ${allows('10.0.0.0/8', 'all of that network')}`,
      ],
    );
    assert.match(textsOf(findings, 'endpoints').join('\n'), /^warn: .*http:\/\/ endpoints/);
    assert.match(textsOf(findings, 'secret key').join('\n'), /^note: is in .*\/secret\.key; /);
    assert.deepEqual(textsOf(findings, 'metrics'), ['warn: there are none']);
  });

  test('a proxy on the same machine needs a public URL, too', async (t) => {
    const tempStore = await tempStoreOf(t);
    const { findings } = await doctor(tempStore, { LEAT_TRUST_PROXY: '127.0.0.1' });
    assert.match(textsOf(findings, 'address').join('\n'), /^bad: clients of other machines/);
  });

  test('metrics that other machines can read are a note', async (t) => {
    const tempStore = await tempStoreOf(t);
    const settings = { LEAT_METRICS_PORT: '9090', LEAT_METRICS_HOST: '0.0.0.0' };
    const { findings } = await doctor(tempStore, settings);
    assert.match(textsOf(findings, 'metrics').join('\n'), /^note: at 0\.0\.0\.0 port 9090/);
  });

  test('backups cannot be seen, which is a note and no fault', async (t) => {
    const { code, findings } = await doctor(await tempStoreOf(t));
    assert.equal(code, 0);
    assert.deepEqual(textsOf(findings, 'backups'), [
      'note: leat doctor cannot see whether there are any',
    ]);
  });
});

describe('leat doctor: files', () => {
  test('a data folder that others can write to is a fault until its mode is changed', async (t) => {
    const tempStore = await tempStoreOf(t);
    await chmod(tempStore.folder, 0o777);
    const before = await doctor(tempStore);
    assert.equal(before.code, 1);
    assert.deepEqual(textsOf(before.findings, 'files'), [
      `bad: others can write to ${tempStore.folder}`,
    ]);
    await chmod(tempStore.folder, 0o770);
    const ofGroup = await doctor(tempStore);
    assert.deepEqual(textsOf(ofGroup.findings, 'files'), [
      `warn: the group of ${tempStore.folder} can replace its files`,
    ]);
    await chmod(tempStore.folder, 0o700);
    const after = await doctor(tempStore);
    assert.match(textsOf(after.findings, 'files').join('\n'), /^ok: /);
  });

  test('.env and a TLS key that every user can read are a warning, not those of a group', async (t) => {
    const tempStore = await tempStoreOf(t);
    const [dotenv, key] = [join(tempStore.folder, '.env'), join(tempStore.folder, 'key.pem')];
    await writeFile(dotenv, 'LEAT_LOG_LEVEL=warn\n', { mode: 0o644 });
    await writeFile(key, '', { mode: 0o644 });
    const files = async (): Promise<string[]> => {
      const settings = { LEAT_TLS_CERT: key, LEAT_TLS_KEY: key };
      return textsOf((await doctor(tempStore, settings)).findings, 'files');
    };
    await chmod(dotenv, 0o644);
    assert.deepEqual(await files(), [`warn: every user can read .env, ${key}`]);
    await chmod(dotenv, 0o640);
    await chmod(key, 0o640);
    assert.match((await files()).join('\n'), /^ok: /);
  });
});

describe('leat doctor: growth of the store', () => {
  test(
    'a disk that is full before the first events leave is a warning',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const leat = await startLeat(tempStore);
      t.after(() => leat.kill());
      await publish(leat, 5);
      assert.equal(await leat.stop(), 0);
      const { bavail, bsize } = await statfs(tempStore.folder);
      // Ten years have some 70,000 times 75 minutes.
      grow(tempStore, { byMinutes: 75, bytes: Math.ceil((bavail * bsize) / 50_000) });
      const grown = await doctor(tempStore, { LEAT_EVENT_RETENTION_DAYS: '3650' });
      assert.match(
        textsOf(grown.findings, 'disk').join('\n'),
        /^warn: .+ are free in .+; at its rate so far the store grows by .+ before the first events are 3,650 days old$/,
      );
      const kept = await doctor(tempStore, { LEAT_EVENT_RETENTION_DAYS: '1' });
      assert.match(textsOf(kept.findings, 'disk').join('\n'), /^ok: /);
    },
  );
});

describe('leat doctor: what the process may use', () => {
  const elsewhere = process.platform !== 'linux' && 'the limit is read from /proc';
  test(
    'a limit of open files below what the settings allow is a warning',
    { skip: elsewhere },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const low = await doctorWithFiles(tempStore, 1024);
      assert.match(low, /^warn +open files +1,024 may be open; .+ take up to 2,380\n +→ raise/m);
      const enough = await doctorWithFiles(tempStore, 1024, {
        LEAT_CONCURRENCY: '128',
        LEAT_SSE_MAX_CONNECTIONS: '20',
        LEAT_MAX_CONNECTIONS_PER_ADDRESS: '500',
      });
      assert.match(enough, /^ok +open files +1,024 may be open; .+ take up to 904$/m);
    },
  );

  test('less memory than all buffers take is a warning', () => {
    const settings = {
      concurrency: 1024,
      sseMaxConnections: 100,
      maxConnectionsPerAddress: 1000,
      inflightBytesMax: 256 * 2 ** 20,
    };
    const facts = { openFilesMax: Infinity, user: 1000 };
    const levels = (memoryBytes: number): string[] =>
      processFindings({ ...facts, memoryBytes }, settings).map(
        ({ level, check }) => `${level} ${check}`,
      );
    assert.deepEqual(levels(2 ** 30), ['ok open files', 'ok memory']);
    assert.deepEqual(levels(2 ** 29), ['ok open files', 'warn memory']);
  });

  test('a service that runs as root is a warning, one of another user is not', async (t) => {
    const { findings } = await doctor(await tempStoreOf(t));
    const expected = process.getuid?.() === 0 ? ['warn: the program runs as root'] : [];
    assert.deepEqual(textsOf(findings, 'user'), expected);
  });
});

async function tempStoreOf(t: TestContext): Promise<TempStore> {
  const tempStore = await createTempStore();
  // The checks of settings do not need what a start writes.
  await writeFile(tempStore.file, '', { mode: 0o600 });
  t.after(() => tempStore.remove());
  return tempStore;
}

/** Makes the events of a stopped service older, and its file larger. */
function grow(
  { file }: TempStore,
  by: { readonly byMinutes: number; readonly bytes: number },
): void {
  const db = new DatabaseSync(file);
  db.prepare('update events set published_at = published_at - ?').run(by.byMinutes * 60_000);
  db.exec('create table filler (bytes blob)');
  const insert = db.prepare('insert into filler values (zeroblob(?))');
  for (let left = by.bytes; left > 0; left -= 2 ** 20) insert.run(2 ** 20);
  db.close();
}

/** Runs `leat doctor` with a limit of open files; returns its output. */
async function doctorWithFiles(
  tempStore: TempStore,
  openFiles: number,
  settings: Readonly<Record<string, string>> = {},
): Promise<string> {
  const child = spawn(
    '/bin/sh',
    ['-c', `ulimit -n ${openFiles}; exec "$0" "$@"`, process.execPath, leatProgram, 'doctor'],
    {
      cwd: tempStore.folder,
      env: {
        PATH: process.env['PATH'] ?? '',
        ...compileCache,
        ...doctorEnvironment(tempStore),
        ...settings,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  endWithProcess(child);
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await once(child, 'close');
  return text;
}
