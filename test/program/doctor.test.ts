import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Finding, note, withDocumentPaths } from '../../src/operator/finding.ts';
import { startDns } from '../helpers/dns.ts';
import { doctor, doctorEnvironment, textsOf } from '../helpers/doctor.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import {
  createTempStore,
  leatProgram,
  runLeat,
  startLeat,
  type TempStore,
  type Running,
  waitFor,
} from '../helpers/leat.ts';
import { trusted } from '../helpers/certificates.ts';
import { testKey, withStore } from '../helpers/secrets.ts';
import { query, sharedPostgres } from '../helpers/postgres.ts';
import { createStream, publish } from '../helpers/traffic.ts';

/** `leat doctor` as a process. */

describe('leat doctor', () => {
  test('a healthy server has no fault, and the exit code is 0', { tags: ['long'] }, async (t) => {
    const { tempStore } = await running(t);
    const { code, output } = await runLeat(['doctor'], doctorEnvironment(tempStore));
    assert.equal(code, 0, output);
    assert.match(
      output,
      /^ok +settings +all are known and valid; read from the environment; there is no \/.*\/\.env\n/,
    );
    assert.match(output, /^ok +store +SQLite \d/m);
    assert.match(output, /^ok +nodes +1 with a lease$/m);
    assert.match(
      output,
      /^warn +alerts +they are written to the log only\n +→ set LEAT_ALERT_WEBHOOK_URL/m,
    );
  });

  test(
    'the settings are those of .env in the working directory, too',
    { tags: ['long'] },
    async (t) => {
      const { tempStore } = await running(t);
      const dotenv = join(tempStore.folder, '.env');
      await writeFile(dotenv, 'LEAT_UNKNOWN=x\n', { mode: 0o600 });
      const { findings } = await doctor(tempStore);
      assert.deepEqual(textsOf(findings, 'settings'), [
        `ok: read from the environment and ${dotenv}`,
        'warn: LEAT_UNKNOWN is not a setting and has no effect',
      ]);
    },
  );

  test(
    'a line that names a document has its whole path, where the program has documents',
    { tags: ['long'] },
    async (t) => {
      const { tempStore } = await running(t);
      const { findings } = await doctor(tempStore);
      const next = findings.find(({ check }) => check === 'backups')?.next ?? '';
      // The bundle of a run of many tests has none.
      const file = join(dirname(dirname(leatProgram)), 'docs/production.md');
      const shown = existsSync(file) ? file : 'docs/production.md';
      assert.ok(next.endsWith(` try a restore: ${shown}`), next);

      const root = fileURLToPath(new URL('../../', import.meta.url));
      const pathsIn = (text: string, folder: string | undefined): string | undefined =>
        withDocumentPaths([note('check', 'text', text)], folder)[0]?.next;
      const text = 'see docs/secrets.md first';
      assert.equal(pathsIn(text, root), `see ${root}docs/secrets.md first`);
      assert.equal(pathsIn(text, tempStore.folder), text);
      assert.equal(pathsIn(text, undefined), text);
    },
  );

  test(
    'an enabled stream to the receiver inside Leat does not send to the network',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      await createStream(leat, 'https://new.inspector.invalid/', 'inside');
      const before = await doctor(tempStore);
      assert.deepEqual(textsOf(before.findings, 'receivers'), [
        'ok: no enabled stream sends to the network',
      ]);
    },
  );

  test(
    'each fault has a line with its fix, and the exit code is 1',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      await createStream(leat, 'http://127.0.0.1:9', 'inside');
      await chmod(tempStore.file, 0o644);
      const { code, findings } = await doctor(tempStore, {
        LEAT_HOST: '192.0.2.1',
        LEAT_UNKNOWN: 'x',
      });
      assert.equal(code, 1);
      const bad = findings.filter(({ level }) => level !== 'ok');
      assert.ok(bad.every(({ next }) => next !== undefined && next !== ''));
      const byCheck = new Map(bad.map((finding) => [finding.check, finding]));
      assert.match(byCheck.get('settings')?.said ?? '', /^LEAT_UNKNOWN is not a setting/);
      assert.match(byCheck.get('files')?.said ?? '', /^others can read .+leat\.db$/);
      assert.match(byCheck.get('tls')?.said ?? '', /^plain HTTP on 192\.0\.2\.1$/);
      assert.match(
        byCheck.get('receivers')?.said ?? '',
        /^127\.0\.0\.1 is at 127\.0\.0\.1, which the egress rule blocks/,
      );
      assert.match(byCheck.get('receivers')?.next ?? '', /add 127\.0\.0\.1 to LEAT_EGRESS_ALLOW/);
    },
  );

  test('names are resolved by LEAT_DNS_SERVERS', { tags: ['long'] }, async (t) => {
    const { tempStore, leat } = await running(t);
    const dns = await startDns((name) => (name === 'known.test' ? ['127.0.0.1'] : 'no such name'));
    t.after(() => dns.close());
    await createStream(leat, 'http://known.test:9', 'known');
    await createStream(leat, 'http://unknown.test:9', 'unknown');
    const { findings } = await doctor(tempStore, { LEAT_DNS_SERVERS: dns.servers.join(',') });
    const texts = findings
      .filter(({ check }) => check === 'receivers')
      .map((finding) => finding.said);
    assert.deepEqual(texts.toSorted(), [
      'known.test is at 127.0.0.1, which the egress rule blocks',
      'unknown.test has no address (ENOTFOUND)',
    ]);
  });

  test(
    'a wrong key is a finding, and the other checks still run',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      await leat.stop();
      const key = Buffer.alloc(32, 8).toString('base64');
      const { code, findings } = await doctor(tempStore, { LEAT_SECRET_KEY: key });
      assert.equal(code, 1);
      assert.match(findings.find(({ check }) => check === 'store')?.said ?? '', /LEAT_SECRET_KEY/);
      assert.ok(findings.some(({ check, level }) => check === 'fsync' && level === 'ok'));
    },
  );

  test(
    'a stream whose secrets do not open is a finding, and it can be deleted',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      const id = await createStream(leat, 'http://127.0.0.1:9', 'damaged');
      await leat.stop();
      const db = new DatabaseSync(tempStore.file);
      db.exec(`update streams set signing_secrets = x'020102'`);
      db.close();
      const again = await startLeat(tempStore);
      t.after(() => again.kill());
      const { code, findings } = await doctor(tempStore);
      assert.equal(code, 1);
      assert.deepEqual(
        findings.filter(isBroken).map(({ said }) => said),
        [`those of stream ${id} do not open, so it is not delivered`],
      );
      assert.ok(findings.some(({ check }) => check === 'nodes'));
      assert.equal((await again.send('DELETE', `/api/v2/event-streams/${id}`)).status, 204);
      assert.equal((await doctor(tempStore)).findings.filter(isBroken).length, 0);
    },
  );

  test(
    'a client certificate that has expired is an alert, and a finding until it is replaced',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      const id = await createStream(leat, 'https://127.0.0.1:9', 'mutual');
      await leat.stop();
      const setExpiry = (expiresAt: number): Promise<void> =>
        withStore(`sqlite:${tempStore.file}`, [testKey(7)], async ({ streams, tenants }) => {
          const [tenant] = await tenants.list();
          const clientCertificate = {
            certificate: trusted.cert,
            privateKey: trusted.key,
            expiresAt,
          };
          const result = await streams.update(tenant?.id ?? 0, id, (before) => ({
            after: { ...before, destination: { ...before.destination, clientCertificate } },
          }));
          assert.ok('updated' in result);
        });
      const found = async (): Promise<string[]> => {
        const { findings } = await doctor(tempStore);
        return findings
          .filter(({ check }) => check === 'client certificates')
          .map(({ level, said, next }) => `${level} ${said}: ${next}`);
      };
      await setExpiry(Date.parse('2026-01-02T03:04:05Z'));
      assert.deepEqual(await found(), [
        `warn that of stream ${id} expired at 2026-01-02T03:04:05.000Z: ` +
          `leat streams update ${id} --certificate-file <file> --certificate-key-file <file>`,
      ]);
      const again = await startLeat(tempStore);
      t.after(() => again.kill());
      const text = 'mutual: its client certificate expired at 2026-01-02T03:04:05.000Z';
      await waitFor('the alert', () => again.output().includes(text));
      assert.match(again.output(), /"alert":"certificate_expired"/);
      await again.stop();
      await setExpiry(Date.parse('2126-01-02T03:04:05Z'));
      assert.deepEqual(await found(), []);
    },
  );

  test(
    '--test-alert sends a test alert and reports a failure to send it',
    { tags: ['long'] },
    async (t) => {
      const { tempStore } = await running(t);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const settings = { LEAT_ALERT_WEBHOOK_URL: endpoint.url };
      const quiet = await doctor(tempStore, settings);
      assert.match(alertOf(quiet.findings).said, /--test-alert sends a test alert/);
      assert.equal(endpoint.arrivals.length, 0);
      const sent = await doctor(tempStore, settings, '--test-alert');
      assert.deepEqual(alertOf(sent.findings), {
        level: 'ok',
        check: 'alerts',
        said: 'webhook accepted a test alert',
      });
      assert.match(endpoint.arrivals[0]?.body ?? '', /this is a test alert/);
      const none = await doctor(tempStore, {}, '--test-alert');
      assert.equal(none.code, 1);
      assert.deepEqual(alertOf(none.findings), {
        level: 'bad',
        check: 'alerts',
        said: 'they are written to the log only, so no test alert was sent',
        next: 'set LEAT_ALERT_WEBHOOK_URL, or LEAT_ALERT_EMAIL with LEAT_SMTP_URL',
      });
      endpoint.respondWith(500);
      const refused = await doctor(tempStore, settings, '--test-alert');
      assert.equal(refused.code, 1);
      assert.equal(alertOf(refused.findings).level, 'bad');
    },
  );

  test('--vacuum shrinks a file of an earlier version', { tags: ['long'] }, async (t) => {
    const { tempStore, leat } = await running(t);
    await publish(leat, 40);
    assert.equal(await leat.stop(), 0);
    disableAutoVacuum(tempStore.file);
    const before = await doctor(tempStore);
    assert.match(spaceOf(before.findings).next ?? '', /leat doctor --vacuum/);
    const sizeBefore = (await stat(tempStore.file)).size;
    const { code, output } = await runLeat(['doctor', '--vacuum'], doctorEnvironment(tempStore));
    assert.equal(code, 0, output);
    assert.match(output, /now; from now on it shrinks as events are removed\.\n$/);
    assert.ok((await stat(tempStore.file)).size < sizeBefore);
    assert.equal(spaceOf((await doctor(tempStore)).findings).level, 'ok');
    const again = await startLeat(tempStore);
    assert.equal(await again.stop(), 0);
  });

  test('--vacuum does not change the file of a running server', { tags: ['long'] }, async (t) => {
    const { tempStore, leat } = await running(t);
    const { code, output } = await runLeat(['doctor', '--vacuum'], doctorEnvironment(tempStore));
    assert.equal(code, 1);
    assert.match(output, /is in use by another process/);
    assert.equal((await leat.send('GET', '/readyz')).status, 200);
  });

  test(
    'on PostgreSQL a restore of data without sequences is a fault',
    { tags: ['long'] },
    async (t) => {
      const server = await sharedPostgres();
      const store = await server.createDatabase();
      t.after(() => server.dropDatabase(store));
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const leat = await startLeat(tempStore, { LEAT_STORE: store });
      t.after(() => leat.kill());
      const contents = async (): Promise<string[]> =>
        textsOf((await doctor(tempStore, { LEAT_STORE: store })).findings, 'contents');
      assert.deepEqual(await contents(), []);
      await query(store, 'alter sequence tenants_id_seq restart');
      assert.deepEqual(await contents(), [
        'bad: the next number for the table tenants is taken already',
      ]);
    },
  );
});

/** Converts a file to one without auto_vacuum, as earlier versions created, with free pages. */
function disableAutoVacuum(file: string): void {
  const db = new DatabaseSync(file);
  db.exec('pragma auto_vacuum = none; vacuum');
  db.exec(`create table filler (text text);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
    insert into filler select hex(zeroblob(1000)) from n`);
  db.exec('drop table filler; pragma wal_checkpoint(truncate)');
  db.close();
}

function isBroken({ check, level }: Finding): boolean {
  return check === 'secrets' && level === 'bad';
}

function alertOf(findings: readonly Finding[]): Finding {
  const found = findings.find(({ check }) => check === 'alerts');
  assert.ok(found);
  return found;
}

function spaceOf(findings: readonly Finding[]): Finding {
  const found = findings.find(({ check }) => check === 'space');
  assert.ok(found);
  return found;
}

async function running(t: TestContext): Promise<{ tempStore: TempStore; leat: Running }> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const leat = await startLeat(tempStore);
  t.after(() => leat.kill());
  return { tempStore, leat };
}
