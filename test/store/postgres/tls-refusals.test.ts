import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { TLSSocket } from 'node:tls';
import { authority, expired, ofAnotherHost, selfSigned } from '../../helpers/certificates.ts';
import { createTempStore } from '../../helpers/leat.ts';
import { newDatabase, openUrl } from '../engines.ts';

describe('PostgreSQL: what a start says of TLS', () => {
  test('sslmode=require at a server without TLS', async () => {
    const url = await newDatabase();
    await refusal(
      `${url}?sslmode=require`,
      'has no TLS, which sslmode in the URL asks for: turn ssl on in postgresql.conf, or take sslmode out where nobody else is on the network',
    );
  });

  const noCa =
    'has a certificate of no CA that Leat trusts, which sslmode in the URL asks for: name the file of its CA by sslrootcert=<file> in the URL';
  for (const mode of ['require', 'verify-full']) {
    test(`sslmode=${mode} at a server with a certificate that it signed itself`, async (t) => {
      await refusal(`${await serverWith(t, selfSigned)}?sslmode=${mode}`, noCa);
    });
  }

  test('sslmode=verify-full with the CA of another server', async (t) => {
    const url = await serverWith(t, selfSigned);
    await refusal(`${url}?sslmode=verify-full&sslrootcert=${await caFile(t)}`, noCa);
  });

  test('sslmode=verify-full at a server whose certificate is for another host', async (t) => {
    const url = await serverWith(t, ofAnotherHost);
    await refusal(
      `${url}?sslmode=verify-full&sslrootcert=${await caFile(t)}`,
      'has a certificate for another host, which sslmode in the URL does not allow: use a name of the certificate in the URL, or give the server one for this name',
    );
  });

  test('sslmode=verify-full at a server whose certificate has expired', async (t) => {
    const url = await serverWith(t, expired);
    await refusal(
      `${url}?sslmode=verify-full&sslrootcert=${await caFile(t)}`,
      'has a certificate that has expired: renew it at the server',
    );
  });

  test('sslrootcert names a file that cannot be read', async () => {
    const url = await newDatabase();
    await refusal(
      `${url}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem`,
      'cannot be opened: a file that its URL names (sslrootcert, sslcert, sslkey) cannot be read: ENOENT /nowhere/ca.pem',
    );
  });
});

async function refusal(url: string, expected: string): Promise<void> {
  await assert.rejects(openUrl(url), (error: Error) => {
    assert.equal(error.name, 'StartRefused');
    assert.equal(error.message.replace(/postgres:\S+/, '<name>'), `LEAT_STORE: <name> ${expected}`);
    return true;
  });
}

async function caFile(t: TestContext): Promise<string> {
  const { folder, remove } = await createTempStore();
  t.after(remove);
  const file = `${folder}/ca.pem`;
  await writeFile(file, authority);
  return file;
}

/** Accepts the request for TLS, and begins it with this certificate. Returns a URL without parameters. */
async function serverWith(t: TestContext, identity: typeof selfSigned): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write('S');
      const { key, cert } = identity;
      new TLSSocket(socket, { isServer: true, key, cert }).on('error', () => socket.destroy());
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.after(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return `postgres://leat:leat@127.0.0.1:${port}/leat`;
}
