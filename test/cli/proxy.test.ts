import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { authority, trusted } from '../helpers/certificates.ts';
import { openShell } from './shell.ts';

async function listen(t: TestContext, server: Server): Promise<string> {
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a proxy that the environment names', () => {
  const words = ['--client-id', 'a'];
  const respond: RequestListener = (_request, response) => {
    response.end('{"access_token": "a", "expires_in": 3600}');
  };
  const startProxy = async (
    t: TestContext,
    options: { readonly rejects?: boolean; readonly respond?: RequestListener } = {},
  ) => {
    const requested: string[] = [];
    const proxy = createServer((request, response) => {
      requested.push(request.url ?? '');
      (options.respond ?? respond)(request, response);
    });
    proxy.on('connect', ({ url = '' }, socket) => {
      requested.push(url);
      if (options.rejects === true) {
        socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
        return;
      }
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      const [host, port] = url.split(':');
      const server = connect(Number(port), host);
      for (const side of [server, socket]) side.on('error', () => side.destroy());
      socket.pipe(server).pipe(socket);
    });
    const address = `http://${await listen(t, proxy)}`;
    const env = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: address, HTTPS_PROXY: address };
    return { env, requested };
  };

  test('NODE_USE_ENV_PROXY: commands reach a server over HTTP through HTTP_PROXY', async (t) => {
    const shell = await openShell(t);
    const { env, requested } = await startProxy(t);
    const login = await shell.run(['login', 'http://leat.invalid', ...words], { input: 'b', env });
    assert.equal(login.code, 0, login.stderr);
    assert.deepEqual(requested, ['http://leat.invalid/oauth/token']);
  });

  test('NODE_USE_ENV_PROXY: plain HTTP to this machine takes no proxy, which would read the secret', async (t) => {
    const shell = await openShell(t);
    const { env, requested } = await startProxy(t);
    const host = await listen(t, createServer(respond));
    const login = await shell.run(['login', `http://${host}`, ...words], { input: 'b', env });
    assert.equal(login.code, 0, login.stderr);
    assert.deepEqual(requested, []);
  });

  test('NODE_USE_ENV_PROXY: commands check the certificate of a server behind HTTPS_PROXY', async (t) => {
    const shell = await openShell(t);
    const { env, requested } = await startProxy(t);
    const host = await listen(t, createTlsServer(trusted, respond));
    await writeFile(join(shell.home, 'ca.pem'), authority);
    const login = (...more: string[]) =>
      shell.run(['login', `https://${host}`, ...words, ...more], { input: 'b', env });
    assert.match((await login()).stderr, /is not trusted/);
    const { code, stderr } = await login('--ca', 'ca.pem');
    assert.equal(code, 0, stderr);
    assert.deepEqual(requested, [host, host]);
  });

  test('NODE_USE_ENV_PROXY: a server behind a proxy may send 100 and 103 before each response', async (t) => {
    const shell = await openShell(t);
    const early: RequestListener = (request, response) => {
      const { socket } = request;
      socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n');
      if (request.url?.endsWith('/token') === true) respond(request, response);
      else response.end('{"streams": []}');
    };
    const { env } = await startProxy(t, { respond: early });
    const host = await listen(t, createTlsServer(trusted, early));
    await writeFile(join(shell.home, 'ca.pem'), authority);
    for (const url of ['http://leat.invalid', `https://${host}`]) {
      const variables = { ...env, LEAT_URL: url, LEAT_CLIENT_ID: 'a', LEAT_CLIENT_SECRET: 'b' };
      const list = ['streams', 'list', '--ca', 'ca.pem'];
      const { code, stderr } = await shell.run(list, { env: variables });
      assert.equal(code, 0, stderr);
    }
  });

  test('NODE_USE_ENV_PROXY: a proxy that rejects the server is named in the error', async (t) => {
    const shell = await openShell(t);
    const { env } = await startProxy(t, { rejects: true });
    const login = await shell.run(['login', 'https://leat.invalid', ...words], {
      input: 'b',
      env,
    });
    assert.deepEqual([login.code, /the proxy does not connect/.test(login.stderr)], [6, true]);
  });
});
