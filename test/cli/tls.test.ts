import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { authority, trusted } from '../helpers/certificates.ts';
import { openShell } from './shell.ts';

describe('a server whose certificate is from its own authority', () => {
  test(
    'a certificate of an unknown authority is trusted only with --ca, LEAT_CA or NODE_EXTRA_CA_CERTS, and --ca is stored',
    { tags: ['long'] },
    async (t) => {
      const server = createServer(trusted, (request, response) => {
        const isToken = request.url === '/oauth/token';
        response.end(
          isToken
            ? '{"access_token": "a", "expires_in": 3600}'
            : '{"streams":[],"eventStreams": []}',
        );
      }).listen(0, '127.0.0.1');
      t.after(() => server.close());
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      const shell = await openShell(t);
      await writeFile(join(shell.home, 'ca.pem'), authority);
      const login = (words: string[] = [], env: Record<string, string> = {}) =>
        shell.run(['login', `https://127.0.0.1:${port}`, '--client-id', 'a', ...words], {
          input: 'b',
          env,
        });
      const refused = await login();
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, /is not trusted .* --ca <file> or NODE_EXTRA_CA_CERTS/);
      const missing = await login(['--ca', 'missing.pem']);
      assert.deepEqual([missing.code, missing.stderr.startsWith('--ca: ')], [2, true]);
      assert.equal((await login([], { LEAT_CA: 'ca.pem' })).code, 0);
      const { code, stderr } = await login(['--ca', 'ca.pem']);
      assert.equal(code, 0, stderr);
      const list = await shell.run(['streams', 'list', '--json']);
      assert.deepEqual([list.code, list.stdout], [0, '[]\n'], list.stderr);
      const extra = { NODE_EXTRA_CA_CERTS: join(shell.home, 'ca.pem') };
      assert.equal((await login([], extra)).code, 0);
    },
  );
});
