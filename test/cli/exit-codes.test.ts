import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createStreamNamed, openLoggedInShell, openServer, openShell } from './shell.ts';

describe('exit codes', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_MAX_STREAMS: '1' });
  });
  after(() => leat.close());

  test('wrong usage ends with 2, help with 0', { tags: ['long'] }, async (t) => {
    const shell = await openShell(t);
    for (const words of [
      ['unknown'],
      ['streams', 'unknown'],
      ['streams', 'show'],
      ['stats', 'a', '--since', 'x'],
    ]) {
      assert.equal((await shell.run(words)).code, 2, words.join(' '));
    }
    const help = await shell.run(['help']);
    assert.equal(help.code, 0);
    assert.match(
      help.stdout,
      /Service, on this machine:[^]*Data, over HTTP:[^]*Operations, over HTTP:/,
    );
    const own = await shell.run(['streams', 'create', '--help']);
    assert.match(own.stdout, /\nExamples:\n {2}leat streams create --name first /);
  });

  test('a response of another program, and of a server without the operation, is no success', async (t) => {
    const shell = await openShell(t);
    let status = 200;
    const other = createServer((request, response) => {
      request.resume();
      const isToken = request.url === '/oauth/token';
      response.writeHead(isToken ? 200 : status, { 'content-type': 'application/json' });
      const body = status === 404 ? { statusCode: 404, message: 'Not Found' } : { any: [] };
      response.end(JSON.stringify(isToken ? { access_token: 'a'.repeat(20) } : body));
    }).listen(0, '127.0.0.1');
    t.after(() => other.close());
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const env = {
      LEAT_URL: `http://127.0.0.1:${port}`,
      LEAT_CLIENT_ID: 'a',
      LEAT_CLIENT_SECRET: 'b',
    };
    const commands = [
      ['redeliver', '--cause', '503'],
      ['redeliver', '--cause', '503', '--dry-run'],
      ['redeliver', '--cause', '503', '--json'],
      ['dismiss', '--all', '--yes'],
      ['dismiss', '--all', '--dry-run'],
      ['streams', 'retry-now', 'est_1111111111111111111111'],
    ];
    for (const words of commands) {
      const ended = await shell.leat(words, { env });
      assert.deepEqual([ended.code, ended.stdout], [1, ''], words.join(' '));
      assert.match(ended.stderr, /is it the address of a Leat server\?/);
    }
    status = 404;
    for (const words of commands) {
      const ended = await shell.leat(words, { env });
      assert.deepEqual([ended.code, ended.stdout], [4, ''], words.join(' '));
      assert.match(ended.stderr, /an older Leat without this operation/);
    }
  });

  test('a client without any scope ends with 3, and the message says how to grant some', async (t) => {
    const operator = await openLoggedInShell(t, leat);
    const words = ['clients', 'create', '--name', 'bare', '--global', '--json'];
    const { stdout } = await operator.leat(words);
    const client = JSON.parse(stdout) as { client_id: string; client_secret: string };
    const env = {
      LEAT_URL: leat.url,
      LEAT_CLIENT_ID: client.client_id,
      LEAT_CLIENT_SECRET: client.client_secret,
    };
    const refused = await (await openShell(t)).leat(['failures'], { env });
    assert.deepEqual([refused.code, refused.stdout], [3, '']);
    const hint = `leat clients grant ${client.client_id} --scope <scopes>`;
    assert.ok(refused.stderr.includes(hint), refused.stderr);
  });

  test('a missing scope ends with 3, and the suggested grant works', async (t) => {
    const operator = await openLoggedInShell(t, leat);
    const created = await operator.leat([
      'clients',
      'create',
      '--name',
      'reader',
      '--global',
      '--scope',
      'read:events',
      '--json',
    ]);
    assert.equal(created.code, 0, created.stderr);
    const client = JSON.parse(created.stdout) as { client_id: string; client_secret: string };
    const reader = await openShell(t);
    const login = () =>
      reader.leat(['login', leat.url, '--client-id', client.client_id], {
        input: client.client_secret,
      });
    assert.equal((await login()).code, 0);
    const refused = await reader.run(['streams', 'list']);
    assert.equal(refused.code, 3);
    const hint = /Let a client that has the scope grant it: leat (?<words>.+)\n$/.exec(
      refused.stderr,
    );
    const words = hint?.groups?.['words']?.split(' ') ?? [];
    assert.deepEqual(words, [
      'clients',
      'grant',
      client.client_id,
      '--scope',
      'read:event_streams',
    ]);
    assert.equal((await operator.leat(words)).code, 0);
    assert.equal((await login()).code, 0);
    assert.equal((await reader.leat(['streams', 'list'])).code, 0);
  });

  test('a client that is not global ends with 3, and the suggested update works', async (t) => {
    const operator = await openLoggedInShell(t, leat);
    const words = [
      'clients',
      'create',
      '--name',
      'local',
      '--scope',
      'read:event_streams',
      '--json',
    ];
    const client = JSON.parse((await operator.leat(words)).stdout) as Record<string, string>;
    const closed = await operator.leat(['clients', 'update', 'local', '--no-global']);
    assert.equal(closed.code, 0, closed.stderr);
    const shell = await openShell(t);
    const env = {
      LEAT_URL: leat.url.replace('127.0.0.1', 'localhost'),
      LEAT_CLIENT_ID: client['client_id'] ?? '',
      LEAT_CLIENT_SECRET: client['client_secret'] ?? '',
    };
    const refused = await shell.leat(['streams', 'list'], { env });
    assert.equal(refused.code, 3);
    const hint = /Let a client that may set it: leat (?<words>.+)\n$/.exec(refused.stderr);
    assert.equal((await operator.leat(hint?.groups?.['words']?.split(' ') ?? [])).code, 0);
    assert.equal((await shell.leat(['streams', 'list'], { env })).code, 0);
  });

  test(
    'an unknown resource ends with 4, a conflict with 5, an invalid request with 1',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const missing = await shell.run(['streams', 'show', `est_${'1'.repeat(22)}`]);
      assert.deepEqual(
        [missing.code, missing.stderr],
        [
          4,
          'The requested stream does not exist: est_1111111111111111111111\nThese exist: leat streams list\n',
        ],
      );
      const unnamed = await shell.run(['streams', 'show', 'no\u009Bwhere']);
      assert.equal(unnamed.code, 4);
      assert.match(unnamed.stderr, /the name "no\\u\{9b\}where": leat streams list shows them/);
      await createStreamNamed(shell, 'only');
      await writeFile(join(shell.home, 'token'), 'a');
      const create = [
        'streams',
        'create',
        '--endpoint',
        'https://example.com/',
        '--bearer-file',
        'token',
      ];
      const many = await shell.run([...create, '--name', 'second']);
      assert.equal(many.code, 5);
      assert.match(many.stderr, /maximum number of event streams.\nDelete one that is not needed/);
      const wrong = await shell.run([...create, '--events', 'NOT A TYPE']);
      assert.equal(wrong.code, 1);
      assert.match(wrong.stderr, /^Payload validation error/);
    },
  );

  test('unknown events and codes of the wrong form name what to use instead', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const why = await shell.leat(['why', 'nothing']);
    assert.deepEqual(
      [why.code, why.stderr.startsWith('The event does not exist: nothing\nIt is found by')],
      [4, true],
    );
    const id = `est_${'1'.repeat(22)}`;
    const event = await shell.leat(['redeliver', id, 'nothing']);
    assert.deepEqual(
      [event.code, event.stderr.endsWith('leat deliveries list <stream>\n')],
      [1, true],
    );
    const cause = await shell.leat(['dismiss', '--cause', 'nonsense', '--dry-run']);
    assert.deepEqual([cause.code, cause.stderr.includes('\nCodes: http_503, ')], [1, true]);
    for (const words of [['--all'], ['--cause', '503'], ['--type', 'a.b']]) {
      const both = await shell.leat(['redeliver', id, 'evt_1', ...words]);
      assert.deepEqual([both.code, both.stderr.includes('not both')], [2, true], words.join(' '));
    }
  });

  test('a client that may read failures but no streams lists failures by the ids of their streams', async (t) => {
    const operator = await openLoggedInShell(t, leat);
    const create = ['clients', 'create', '--name', 'failures', '--global', '--json', '--scope'];
    const created = await operator.leat([...create, 'read:event_deliveries']);
    const client = JSON.parse(created.stdout) as { client_id: string; client_secret: string };
    const env = {
      LEAT_URL: leat.url,
      LEAT_CLIENT_ID: client.client_id,
      LEAT_CLIENT_SECRET: client.client_secret,
    };
    const shell = await openShell(t);
    const listed = await shell.leat(['deliveries', 'list', '--all'], { env });
    assert.deepEqual([listed.code, listed.stderr], [0, 'No failures.\n']);
  });

  test('a server that stays busy ends with 6, after two retries', async (t) => {
    let requests = 0;
    const busy = createServer((_request, response) => {
      requests++;
      response.writeHead(503, { 'retry-after': '0' }).end('{"message": "Service Unavailable"}');
    }).listen(0, '127.0.0.1');
    t.after(() => busy.close());
    await once(busy, 'listening');
    const { port } = busy.address() as { port: number };
    const shell = await openShell(t);
    const words = ['login', `http://127.0.0.1:${port}`, '--client-id', 'a'];
    const { code, stderr } = await shell.run(words, { input: 'b' });
    assert.equal(code, 6);
    assert.equal(requests, 3);
    assert.match(stderr, /Service Unavailable\nTry again in a moment\.\n$/);
  });
});
