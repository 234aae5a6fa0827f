import assert from 'node:assert/strict';
import { randomBytes, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, get } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { StartRefused } from '../../src/core/errors.ts';
import { loadOrCreateLocalTls, localAuthorityFile } from '../../src/tls/local-authority.ts';
import type { Identity } from '../../src/tls/x509.ts';

const DAY_MS = 86_400_000;
const now = Date.parse('2026-11-20T12:00:00.500Z');
const hosts = ['leat.example.com', '2001:db8::7', '10.0.0.7'];
const files = ['tls-ca-key.pem', 'tls-ca.pem', 'tls-cert.pem', 'tls-key.pem'];

describe('loadOrCreateLocalTls', () => {
  test('loadOrCreateLocalTls creates four files; only their owner can read the private keys', async (t) => {
    const folder = join(await freshFolder(t), 'data');
    await load(folder);
    assert.deepEqual((await readdir(folder)).toSorted(), files);
    const modes = await Promise.all(files.map(async (file) => modeOf(join(folder, file))));
    assert.deepEqual(modes, [0o600, 0o644, 0o644, 0o600]);
    assert.equal(localAuthorityFile(folder), join(folder, 'tls-ca.pem'));
    assert.doesNotMatch(await readFile(localAuthorityFile(folder), 'utf8'), /PRIVATE/);
  });

  test('sets purpose, names and validity of both certificates', async (t) => {
    const folder = await freshFolder(t);
    const { leaf, authority } = await certificates(folder, await load(folder));
    assert.equal(authority.ca, true);
    assert.equal(leaf.ca, false);
    assert.equal(daysOf(authority), 3650);
    assert.equal(daysOf(leaf), 397);
    assert.ok(leaf.checkIssued(authority) && leaf.verify(authority.publicKey));
    assert.ok(authority.verify(authority.publicKey));
    assert.deepEqual(leaf.keyUsage, ['1.3.6.1.5.5.7.3.1']);
    assert.equal(leaf.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1');
    for (const host of ['localhost', 'leat.example.com']) assert.equal(leaf.checkHost(host), host);
    for (const address of ['127.0.0.1', '::1', '2001:db8::7', '10.0.0.7'])
      assert.ok(leaf.checkIP(address) !== undefined, address);
    assert.equal(leaf.checkHost('example.com'), undefined);
  });

  test('loadOrCreateLocalTls writes dates after 2049', async (t) => {
    const folder = await freshFolder(t);
    const late = Date.parse('2049-06-01T00:00:00.999Z');
    const { leaf, authority } = await certificates(folder, await load(folder, { at: late }));
    assert.equal(leaf.validToDate.getUTCFullYear(), 2050);
    assert.equal(daysOf(authority), 3650);
  });

  test('reuses the files while they cover the hosts', async (t) => {
    const folder = await freshFolder(t);
    await load(folder);
    const before = await contents(folder);
    await load(folder, { at: now + 300 * DAY_MS });
    await load(folder, { of: ['leat.example.com'] });
    assert.deepEqual(await contents(folder), before);
  });

  test('loadOrCreateLocalTls creates another certificate of the same authority for a new host', async (t) => {
    const folder = await freshFolder(t);
    const first = await certificates(folder, await load(folder));
    const second = await certificates(folder, await load(folder, { of: ['other.example.com'] }));
    assert.equal(second.authority.raw.compare(first.authority.raw), 0);
    assert.notEqual(second.leaf.serialNumber, first.leaf.serialNumber);
    assert.equal(second.leaf.checkHost('other.example.com'), 'other.example.com');
    assert.ok(second.leaf.verify(first.authority.publicKey));
  });

  test('loadOrCreateLocalTls creates another certificate when the old one expires within 30 days', async (t) => {
    const folder = await freshFolder(t);
    const first = await certificates(folder, await load(folder));
    const at = now + 367 * DAY_MS;
    const second = await certificates(folder, await load(folder, { at }));
    assert.equal(second.authority.raw.compare(first.authority.raw), 0);
    assert.ok(second.leaf.validToDate.getTime() > at + 395 * DAY_MS);
  });

  test('a certificate never outlives its authority, and both are renewed together', async (t) => {
    const folder = await freshFolder(t);
    await load(folder);
    const old = await certificates(folder, await load(folder, { at: now + 3500 * DAY_MS }));
    assert.equal(old.leaf.validTo, old.authority.validTo);
    const fresh = await certificates(folder, await load(folder, { at: now + 3625 * DAY_MS }));
    assert.notEqual(fresh.authority.subject, old.authority.subject);
    assert.ok(fresh.leaf.verify(fresh.authority.publicKey));
  });

  for (const file of files) {
    test(`loadOrCreateLocalTls replaces ${file} when it is missing or has other content`, async (t) => {
      const folder = await freshFolder(t);
      await load(folder);
      for (const spoil of [
        () => rm(join(folder, file)),
        () => writeFile(join(folder, file), 'x'),
      ]) {
        await spoil();
        const { leaf, authority } = await certificates(folder, await load(folder));
        assert.ok(leaf.verify(authority.publicKey));
        const [cert, key] = await contents(folder, ['tls-cert.pem', 'tls-key.pem']);
        assert.deepEqual({ cert, key }, await load(folder));
      }
    });
  }

  test('loadOrCreateLocalTls replaces a certificate of another folder', async (t) => {
    const one = await freshFolder(t);
    const other = await freshFolder(t);
    await load(one);
    await load(other);
    await writeFile(join(one, 'tls-cert.pem'), await readFile(join(other, 'tls-cert.pem')));
    await writeFile(join(one, 'tls-key.pem'), await readFile(join(other, 'tls-key.pem')));
    const { leaf, authority } = await certificates(one, await load(one));
    assert.ok(leaf.verify(authority.publicKey));
  });

  test('concurrent starts use one authority', async (t) => {
    const folder = await freshFolder(t);
    const made = await Promise.all(Array.from({ length: 8 }, () => load(folder)));
    const authority = new X509Certificate(await readFile(localAuthorityFile(folder)));
    for (const { cert } of made) assert.ok(new X509Certificate(cert).verify(authority.publicKey));
  });

  test('loadOrCreateLocalTls refuses a folder that is a file, in one line', async (t) => {
    const file = join(await freshFolder(t), 'file');
    await writeFile(file, '');
    await assert.rejects(load(file), (error: unknown) => {
      assert.ok(error instanceof StartRefused);
      assert.match(error.message, /^LEAT_STORE: the data folder .+$/);
      return true;
    });
  });

  test('sets the modes of files that it replaces', async (t) => {
    const folder = await freshFolder(t);
    await load(folder);
    await chmod(join(folder, 'tls-key.pem'), 0o644);
    await load(folder, { of: ['other.example.com'] });
    assert.equal(await modeOf(join(folder, 'tls-key.pem')), 0o600);
  });

  test('a client that trusts the authority can connect by name and by address', async (t) => {
    const folder = await freshFolder(t);
    const identity = await loadOrCreateLocalTls(folder, hosts, {
      now: Date.now(),
      random: randomBytes,
    });
    const server = createServer(identity, (_request, reply) => reply.end('here'));
    t.after(() => server.close());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const ca = await readFile(localAuthorityFile(folder), 'utf8');
    for (const host of ['localhost', '127.0.0.1']) {
      const request = get({ host, port, ca, agent: false, family: 4 });
      const [response] = (await once(request, 'response')) as [
        { statusCode: number; resume(): void },
      ];
      assert.equal(response.statusCode, 200);
      response.resume();
    }
  });
});

function load(
  folder: string,
  { at = now, of = hosts }: { at?: number; of?: readonly string[] } = {},
): Promise<Identity> {
  return loadOrCreateLocalTls(folder, of, { now: at, random: randomBytes });
}

async function certificates(
  folder: string,
  { cert }: Identity,
): Promise<{ leaf: X509Certificate; authority: X509Certificate }> {
  const authority = new X509Certificate(await readFile(localAuthorityFile(folder)));
  return { leaf: new X509Certificate(cert), authority };
}

function daysOf({ validFromDate, validToDate }: X509Certificate): number {
  return (validToDate.getTime() - validFromDate.getTime()) / DAY_MS;
}

function contents(folder: string, of: readonly string[] = files): Promise<string[]> {
  return Promise.all(of.map((file) => readFile(join(folder, file), 'utf8')));
}

async function modeOf(file: string): Promise<number> {
  return (await stat(file)).mode & 0o777;
}

async function freshFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-tls-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
