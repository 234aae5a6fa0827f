import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { publish, type StreamBody } from '../helpers/api-client.ts';
import { bootstrapClient, type Running } from '../helpers/leat.ts';
import { logIn, openServer, openShell, type Shell } from './shell.ts';

describe('leat streams', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat streams: creates, lists, shows, changes and deletes a stream', async (t) => {
    const shell = await loggedIn(t, leat);
    await writeFile(join(shell.home, 'token'), 'secret-of-the-hook\n');
    const words = ['--endpoint', 'https://example.com/hook', '--bearer-file', 'token'];
    const options = ['--name', 'crm', '--events', 'user.created,order.paid', '--json'];
    const made = await shell.leat(['streams', 'create', ...options, ...words]);
    assert.equal(made.code, 0, made.stderr);
    const stream = JSON.parse(made.stdout) as StreamBody;
    assert.deepEqual(stream.subscriptions, [
      { event_type: 'user.created' },
      { event_type: 'order.paid' },
    ]);
    const listed = await shell.leat(['streams', 'list']);
    assert.match(
      listed.stdout,
      new RegExp(
        `^ID .*\n(?:.*\n)*${stream.id}  crm +enabled +user.created,order.paid +https://example`,
      ),
    );
    const shown = await shell.leat(['streams', 'show', 'crm']);
    assert.match(shown.stdout, /^Id +est_.*\nName +crm\nStatus +enabled\n/);
    assert.match(shown.stdout, /^Authorization +bearer$/m);
    const exact = await shell.leat(['streams', 'show', stream.id, '--json']);
    const direct = await leat.send('GET', `/api/v2/event-streams/${stream.id}`);
    assert.equal(exact.stdout, `${await direct.text()}\n`);
    const changed = await shell.leat(['streams', 'update', 'crm', '--name', 'crm-2', '--json']);
    assert.equal((JSON.parse(changed.stdout) as StreamBody).name, 'crm-2');
    const refused = await shell.leat(['streams', 'delete', 'crm-2']);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /There is no terminal to ask for confirmation: add --yes/);
    const gone = await shell.leat(['streams', 'delete', 'crm-2', '--yes']);
    assert.deepEqual([gone.code, gone.stdout], [0, `Deleted ${stream.id}.\n`]);
    assert.equal((await shell.leat(['streams', 'delete', stream.id, '--yes'])).code, 0);
    assert.equal((await shell.leat(['streams', 'show', stream.id])).code, 4);
  });

  test('leat streams: accepts each authorization method, with secrets from files only', async (t) => {
    const shell = await loggedIn(t, leat);
    await writeFile(join(shell.home, 'secret'), 'a-secret');
    const create = (...words: string[]) =>
      shell.leat(['streams', 'create', '--endpoint', 'https://example.com/', '--json', ...words]);
    const authorization = (text: string) =>
      (JSON.parse(text) as StreamBody).destination.configuration.webhook_authorization;
    const basic = await create('--basic-user', 'leat', '--basic-password-file', 'secret');
    assert.deepEqual(authorization(basic.stdout), { method: 'basic', username: 'leat' });
    const header = await create('--header', 'X-Key', '--header-value-file', 'secret');
    assert.deepEqual(authorization(header.stdout), {
      method: 'custom_header',
      header_key: 'X-Key',
    });
    const piped = await shell.leat(
      ['streams', 'create', '--endpoint', 'https://example.com/', '--bearer-file', '-'],
      { input: 'from-stdin' },
    );
    assert.equal(piped.code, 0, piped.stderr);
    const wrong: [string[], RegExp][] = [
      [[], /No authorization: add --bearer-file/],
      [['--basic-user', 'a'], /--basic-user needs --basic-password-file/],
      [['--header-value-file', 'secret'], /--header-value-file needs --header/],
      [
        ['--bearer-file', 'secret', '--basic-user', 'a', '--basic-password-file', 'secret'],
        /Choose one of/,
      ],
      [['--bearer-file', 'missing'], /--bearer-file: missing cannot be read \(ENOENT\)/],
    ];
    for (const [words, message] of wrong) {
      const { code, stderr } = await create(...words);
      assert.equal(code, 2, stderr);
      assert.match(stderr, message);
    }
  });

  test('leat streams: update keeps the secret of an unchanged authorization, and reports when it is needed again', async (t) => {
    const shell = await loggedIn(t, leat);
    const id = await createdBy(shell, 'kept');
    const same = await shell.leat(['streams', 'update', id, '--endpoint', 'https://example.com/']);
    assert.equal(same.code, 0, same.stderr);
    const other = await shell.leat([
      'streams',
      'update',
      id,
      '--endpoint',
      'https://example.com/b',
    ]);
    assert.equal(other.code, 1);
    assert.match(other.stderr, /Missing required property: token/);
    const nothing = await shell.leat(['streams', 'update', id]);
    assert.deepEqual([nothing.code, nothing.stderr.startsWith('Nothing to change')], [2, true]);
  });

  test('leat streams: enable reports how many events of the disabled time are not sent', async (t) => {
    const shell = await loggedIn(t, leat);
    const id = await createdBy(shell, 'switched');
    const off = await shell.leat(['streams', 'disable', 'switched']);
    assert.match(off.stdout, /^Status +disabled$/m);
    await publish(leat, 'switched.event');
    const on = await shell.leat(['streams', 'enable', id]);
    assert.match(on.stdout, /^Status +enabled$/m);
    assert.equal(
      on.stderr,
      '1 event published while it was disabled will not be sent; leat replay start sends them.\n',
    );
    await shell.leat(['streams', 'disable', 'switched']);
    const held = await shell.leat(['streams', 'enable', id, '--resume', 'held']);
    assert.deepEqual([held.code, held.stderr], [0, '']);
    const wrong = await shell.leat(['streams', 'enable', id, '--resume', 'later']);
    assert.equal(wrong.code, 2);
  });

  test('leat streams: secret prints the signing secret and creates a new one', async (t) => {
    const shell = await loggedIn(t, leat);
    const id = await createdBy(shell, 'signed');
    const first = await shell.leat(['streams', 'secret', id]);
    assert.match(first.stdout, /^whsec_[A-Za-z0-9+/]{43}=\n$/);
    const second = await shell.leat(['streams', 'secret', id, '--rotate', '--json']);
    const { secret, previous_expires_at: expires } = JSON.parse(second.stdout) as {
      secret: string;
      previous_expires_at: string;
    };
    assert.notEqual(`${secret}\n`, first.stdout);
    assert.match(expires, /^\d{4}-/);
  });
});

describe('exit codes', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_MAX_STREAMS: '1' });
  });
  after(() => leat.close());

  test('wrong usage ends with 2, help with 0', async (t) => {
    const shell = await openShell(t);
    for (const words of [
      ['unknown'],
      ['streams', 'unknown'],
      ['streams', 'show'],
      ['stats', 'a', '--since', 'x'],
    ]) {
      assert.equal((await shell.leat(words)).code, 2, words.join(' '));
    }
    const help = await shell.leat(['help']);
    assert.equal(help.code, 0);
    assert.match(
      help.stdout,
      /Service, on this machine:[^]*Data, over HTTP:[^]*Operations, over HTTP:/,
    );
    const own = await shell.leat(['streams', 'create', '--help']);
    assert.match(own.stdout, /\nExamples:\n {2}leat streams create --name crm /);
  });

  test('a missing scope ends with 3, and the suggested grant works', async (t) => {
    const operator = await loggedIn(t, leat);
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
    const refused = await reader.leat(['streams', 'list']);
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
    const operator = await loggedIn(t, leat);
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

  test('an unknown resource ends with 4, a conflict with 5, an invalid request with 1', async (t) => {
    const shell = await loggedIn(t, leat);
    const missing = await shell.leat(['streams', 'show', `est_${'1'.repeat(22)}`]);
    assert.deepEqual([missing.code, missing.stderr], [4, 'The requested stream does not exist.\n']);
    const unnamed = await shell.leat(['streams', 'show', 'no\u009Bwhere']);
    assert.equal(unnamed.code, 4);
    assert.match(unnamed.stderr, /the name "no\\u\{9b\}where": leat streams list shows them/);
    await createdBy(shell, 'only');
    await writeFile(join(shell.home, 'token'), 'a');
    const create = [
      'streams',
      'create',
      '--endpoint',
      'https://example.com/',
      '--bearer-file',
      'token',
    ];
    const many = await shell.leat([...create, '--name', 'second']);
    assert.equal(many.code, 5);
    assert.match(many.stderr, /maximum number of event streams.\nDelete one that is not needed/);
    const wrong = await shell.leat([...create, '--events', 'NOT A TYPE']);
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /^Payload validation error/);
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
    const { code, stderr } = await shell.leat(words, { input: 'b' });
    assert.equal(code, 6);
    assert.equal(requests, 3);
    assert.match(stderr, /Service Unavailable\nTry again in a moment\.\n$/);
  });
});

async function loggedIn(t: TestContext, leat: Running): Promise<Shell> {
  const shell = await openShell(t);
  const { code, stderr } = await logIn(shell, leat);
  assert.equal(code, 0, stderr);
  assert.ok(!stderr.includes(bootstrapClient.secret));
  return shell;
}

async function createdBy(shell: Shell, name: string): Promise<string> {
  const words = ['--name', name, '--endpoint', 'https://example.com/', '--events', `${name}.event`];
  const options = { input: 'a-token' };
  const all = ['streams', 'create', ...words, '--bearer-file', '-', '--json'];
  const { code, stdout, stderr } = await shell.leat(all, options);
  assert.equal(code, 0, stderr);
  return (JSON.parse(stdout) as StreamBody).id;
}
