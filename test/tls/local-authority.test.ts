import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, get } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { StartRefused } from '../../src/core/errors.ts';
import { loadOrCreateLocalTls, localAuthorityFile } from '../../src/tls/local-authority.ts';
import { type Identity, makeServerCertificate } from '../../src/tls/x509.ts';
import { contentOf } from '../helpers/folder-content.ts';

const DAY_MS = 86_400_000;
const now = Date.parse('2026-11-20T12:00:00.500Z');
const hosts = ['leat.example.com', '2001:db8::7', '10.0.0.7'];
/** An authority as earlier versions made it: without name constraints. Its key protects nothing. */
const unconstrained = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtHAV0AfWxfh2mT40
VOt9Gz2q18hWjikmNCv/pOUD4uuhRANCAAQLop+L+vI5nWbwsGRI47bGdRR06a97
bZiR2j5YXE2A1DaP7LSGFutJDsVi8Ta5IYB9KAvb2sTkdT6xo6vGCozL
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBhzCCAS2gAwIBAgIQdSPV0drXiD6MxO6UnF87ozAKBggqhkjOPQQDAjAhMR8w
HQYDVQQDDBZMZWF0IGxvY2FsIENBIGRiZDc5NDY0MCAXDTI2MTEwMTAwMDAwMFoY
DzIxMjYxMDA4MDAwMDAwWjAhMR8wHQYDVQQDDBZMZWF0IGxvY2FsIENBIGRiZDc5
NDY0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEC6Kfi/ryOZ1m8LBkSOO2xnUU
dOmve22Ykdo+WFxNgNQ2j+y0hhbrSQ7FYvE2uSGAfSgL29rE5HU+saOrxgqMy6NF
MEMwEgYDVR0TAQH/BAgwBgEB/wIBADAOBgNVHQ8BAf8EBAMCAQYwHQYDVR0OBBYE
FIV4JyxSyA9+O38ey1BrRC75bNIbMAoGCCqGSM49BAMCA0gAMEUCIQCN2ds5vn5+
QMDjvsHffXBgt3BBcbORNYdBYRA1kkbm9QIgb05/J+dBqPBjOe7tkwbit/QZQyix
W/aNHIalTmHoBEc=
-----END CERTIFICATE-----
`;
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

  test('loadOrCreateLocalTls creates another certificate of the same authority for a subdomain', async (t) => {
    const folder = await freshFolder(t);
    const first = await certificates(folder, await load(folder));
    for (const host of ['two.leat.example.com', 'two.localhost', 'LEAT.example.com']) {
      const second = await certificates(folder, await load(folder, { of: [host] }));
      assert.equal(second.authority.raw.compare(first.authority.raw), 0, host);
      assert.ok(second.leaf.checkHost(host) !== undefined, host);
      assert.ok(second.leaf.verify(first.authority.publicKey));
    }
  });

  for (const host of [
    'other.example.com',
    'notleat.example.com',
    'example.com',
    '10.0.0.8',
    '::2',
  ]) {
    test(`loadOrCreateLocalTls replaces an authority that does not permit ${host}, and says so`, async (t) => {
      const folder = await freshFolder(t);
      const first = await certificates(folder, await load(folder));
      const replaced: string[] = [];
      const second = await certificates(
        folder,
        await load(folder, { of: [...hosts, host], replaced }),
      );
      assert.deepEqual(replaced, [`it may not sign for ${host}`]);
      assert.notEqual(second.authority.subject, first.authority.subject);
      assert.ok(second.leaf.verify(second.authority.publicKey));
      const key = await readFile(join(folder, 'tls-ca-key.pem'), 'utf8');
      assert.ok(key.endsWith(await readFile(localAuthorityFile(folder), 'utf8')));
      await load(folder, { of: [...hosts, host], replaced });
      assert.equal(replaced.length, 1);
    });
  }

  test('loadOrCreateLocalTls replaces an authority without name constraints, and says so', async (t) => {
    const folder = await freshFolder(t);
    // Made by a version before.
    await writeFile(join(folder, 'tls-ca-key.pem'), unconstrained);
    const replaced: string[] = [];
    const { leaf, authority } = await certificates(folder, await load(folder, { replaced }));
    assert.deepEqual(replaced, ['it could sign for any name']);
    assert.ok(leaf.verify(authority.publicKey));
    assert.notEqual(await readFile(join(folder, 'tls-ca-key.pem'), 'utf8'), unconstrained);
  });

  test('the authority has critical name constraints and signs for servers only', async (t) => {
    const folder = await freshFolder(t);
    const { authority } = await certificates(folder, await load(folder));
    // Identifier, critical, and the beginning of the value.
    const head = Buffer.from('0603551d1e0101ff04', 'hex');
    assert.ok(authority.raw.includes(head));
    assert.deepEqual(authority.keyUsage, ['1.3.6.1.5.5.7.3.1']);
    for (const part of ['localhost', 'leat.example.com']) {
      assert.ok(
        authority.raw.includes(Buffer.concat([Buffer.of(0x82, part.length), Buffer.from(part)])),
      );
    }
    for (const bytes of ['87087f000001ffffffff', '87080a000007ffffffff']) {
      assert.ok(authority.raw.includes(Buffer.from(bytes, 'hex')), bytes);
    }
    assert.ok(
      authority.raw.includes(Buffer.from(`8720${'0'.repeat(31)}1${'f'.repeat(32)}`, 'hex')),
    );
  });

  for (const host of ['evil.example.net', '203.0.113.7', '2001:db8::8']) {
    test(`a client that trusts the authority rejects its certificate for ${host}`, async (t) => {
      const folder = await freshFolder(t);
      await load(folder, { at: Date.now() });
      const text = await readFile(join(folder, 'tls-ca-key.pem'), 'utf8');
      const at = text.indexOf('-----BEGIN CERTIFICATE-----');
      const stolen = { key: text.slice(0, at), cert: text.slice(at) };
      const validity = { from: Date.now() - DAY_MS, until: Date.now() + DAY_MS };
      const sign = (names: readonly string[]): Promise<Identity> =>
        makeServerCertificate(names, stolen, { validity, random: randomBytes });
      await assert.rejects(connectTo(t, await sign(['localhost', host]), stolen.cert), {
        message: 'permitted subtree violation',
      });
      await connectTo(t, await sign(['localhost']), stolen.cert);
    });
  }

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

  for (const file of files.filter((name) => name !== 'tls-ca-key.pem')) {
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

  for (const [what, spoil] of [
    ['is missing', (file: string) => rm(file)],
    ['is empty', (file: string) => writeFile(file, '')],
    ['has other content', (file: string) => writeFile(file, 'x')],
  ] as const) {
    test(`an authority whose file ${what}: refused, and the files stay`, async (t) => {
      const folder = await freshFolder(t);
      await load(folder);
      const file = join(folder, 'tls-ca-key.pem');
      const text = await readFile(file, 'utf8');
      await spoil(file);
      const before = await contentOf(folder);
      await assert.rejects(load(folder), (error: unknown) => {
        assert.ok(error instanceof StartRefused);
        assert.match(error.message, /^LEAT_TLS: \S+tls-ca-key\.pem .+: put the file back .+ away$/);
        return true;
      });
      assert.deepEqual(await contentOf(folder), before);
      await writeFile(file, text);
      await load(folder);
      for (const name of ['tls-ca-key.pem', 'tls-ca.pem'])
        await rename(join(folder, name), join(folder, `former-${name}`));
      await load(folder);
    });
  }

  test('an authority that is replaced for another domain stays in a file of its own', async (t) => {
    const folder = await freshFolder(t);
    await load(folder);
    const former = await readFile(join(folder, 'tls-ca-key.pem'), 'utf8');
    await load(folder, { of: ['other.example.com'] });
    assert.ok((await keptTexts(folder, 'tls-ca-key.pem')).includes(former));
  });

  test('a certificate and key that somebody else has put there stay in files of their own', async (t) => {
    const folder = await freshFolder(t);
    const texts = {
      'tls-ca.pem': 'the CA',
      'tls-cert.pem': 'a certificate',
      'tls-key.pem': 'its key',
    };
    await load(folder);
    for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text);
    await load(folder);
    for (const [name, text] of Object.entries(texts))
      assert.deepEqual(await keptTexts(folder, name), [text]);
    const [kept = ''] = (await readdir(folder)).filter((name) => name.startsWith('tls-key.pem.'));
    assert.equal(await modeOf(join(folder, kept)), 0o600);
  });

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

  test('openssl accepts the certificate for its names and addresses, strictly', async (t) => {
    const folder = await freshFolder(t);
    await load(folder, { at: Date.now() });
    const chain = ['-x509_strict', '-CAfile', localAuthorityFile(folder), '-purpose', 'sslserver'];
    const openssl = (...words: string[]): Promise<unknown> =>
      promisify(execFile)('openssl', [...words]);
    const isInstalled = await openssl('version').then(
      () => true,
      () => false,
    );
    if (!isInstalled) return t.skip('no openssl');
    for (const name of [
      ...['localhost', 'leat.example.com'].map((host) => ['-verify_hostname', host]),
      ...['127.0.0.1', '::1', '2001:db8::7'].map((address) => ['-verify_ip', address]),
    ]) {
      const { stdout } = (await openssl(
        'verify',
        ...chain,
        ...name,
        join(folder, 'tls-cert.pem'),
      )) as {
        stdout: string;
      };
      assert.match(stdout, /: OK\n$/);
    }
  });

  test('a client that trusts the authority can connect by name and by address', async (t) => {
    const folder = await freshFolder(t);
    const identity = await load(folder, { at: Date.now() });
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
  {
    at = now,
    of = hosts,
    replaced = [],
  }: { at?: number; of?: readonly string[]; replaced?: string[] } = {},
): Promise<Identity> {
  return loadOrCreateLocalTls(folder, of, {
    now: at,
    random: randomBytes,
    replaced: (reason) => replaced.push(reason),
  });
}

/** Connects a client that trusts an authority to a server with a certificate, as localhost. */
async function connectTo(t: TestContext, identity: Identity, ca: string): Promise<void> {
  const server = createServer(identity);
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = connect({ host: '127.0.0.1', port, ca, servername: 'localhost' });
  t.after(() => client.destroy());
  await once(client, 'secureConnect');
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

/** Returns the texts that were kept when a file was replaced. */
async function keptTexts(folder: string, name: string): Promise<string[]> {
  const kept = (await readdir(folder)).filter((each) => each.startsWith(`${name}.`));
  return Promise.all(kept.map((each) => readFile(join(folder, each), 'utf8')));
}

async function freshFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-tls-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
