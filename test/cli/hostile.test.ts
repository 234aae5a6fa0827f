import assert from 'node:assert/strict';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { spawn } from 'node:child_process';
import { describe, test, type TestContext } from 'node:test';
import { Command } from 'commander';
import { pathOf } from '../../src/cli/http/api-client.ts';
import { CommandFailed, exitCodes } from '../../src/cli/errors.ts';
import { apiError } from '../../src/cli/http/api-error.ts';
import { terminalSafe } from '../../src/cli/json.ts';
import { addServiceExamples } from '../../src/cli/service-examples.ts';
import { readLines } from '../../src/cli/read-lines.ts';
import { leatProgram, waitFor } from '../helpers/leat.ts';
import { openShell } from './shell.ts';

const id = `est_${'1'.repeat(22)}`;

/** Starts a server that issues a token and passes every other request to `respond`. */
async function startFake(t: TestContext, respond: RequestListener) {
  const requested: string[] = [];
  const server = createServer((request, response) => {
    request.resume();
    requested.push(`${request.method} ${request.url}`);
    if (request.url !== '/oauth/token') return respond(request, response);
    response.end('{"access_token":"token","expires_in":3600}');
  }).listen(0, '127.0.0.1');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { requested, env: { LEAT_URL: url, LEAT_CLIENT_ID: 'a', LEAT_CLIENT_SECRET: 'b-secret' } };
}

describe('a server that is not Leat', { concurrency: 2 }, () => {
  const bodies: [body: string, words: readonly string[]][] = [
    ['null', ['streams', 'show', id]],
    ['{"eventStreams":[null]}', ['streams', 'list']],
    ['{"eventStreams":[{"id":5}]}', ['streams', 'list']],
    ['null', ['events', 'publish', '--type', 'a.b']],
    ['', ['users', 'show', 'a|b']],
    ['{}', ['listen', '--stream', id, '--port', '0']],
  ];
  for (const [body, words] of bodies) {
    test(`a response "${body}" to ${words.slice(0, 2).join(' ')} is reported in one line`, async (t) => {
      const shell = await openShell(t);
      const { env } = await startFake(t, (_request, response) => response.end(body));
      const { code, stdout, stderr } = await shell.leat(words, { env });
      assert.equal(code, exitCodes.failed, stderr);
      assert.equal(stdout, '');
      assert.match(stderr, /^http:\/\/127\.0\.0\.1:\d+ [^\n]+\n$/);
    });
  }

  test('a connection cut within an error response is reported as unreachable, also for a pull', async (t) => {
    const shell = await openShell(t);
    const { env } = await startFake(t, (_request, response) => {
      response.writeHead(403, { 'content-length': 100 });
      response.write('{', () => response.destroy());
    });
    const { code, stderr } = await shell.leat(['events', 'tail'], { env });
    assert.equal(code, exitCodes.unavailable);
    assert.match(stderr, /cannot be reached: the connection was cut/);
  });

  test('a redirect is not followed, so the token is not sent elsewhere', async (t) => {
    const shell = await openShell(t);
    const other = await startFake(t, (_request, response) => response.end('{}'));
    const { env } = await startFake(t, (_request, response) => {
      response.writeHead(308, { location: `${other.env.LEAT_URL}/x` }).end();
    });
    const { code, stderr } = await shell.leat(['streams', 'list'], { env });
    assert.equal(code, exitCodes.failed);
    assert.match(stderr, /It points to http:\/\/127\.0\.0\.1:\d+\. If that is right: leat login/);
    assert.deepEqual(other.requested, []);
  });

  test('a gateway error of a proxy ends with 6', () => {
    for (const status of [502, 504]) {
      const { exitCode } = apiError({ status, text: '<html>' }, { url: 'http://a', clientId: '' });
      assert.equal(exitCode, exitCodes.unavailable, String(status));
    }
  });
});

describe('output', { concurrency: 2 }, () => {
  test(
    'output that cannot be written is a failure',
    { skip: process.platform !== 'linux' },
    async (t) => {
      const full = openSync('/dev/full', 'w');
      const child = spawn(process.execPath, [leatProgram, 'completion', 'bash'], {
        stdio: ['ignore', full, 'pipe'],
      });
      let stderr = '';
      child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
      t.after(() => child.kill('SIGKILL'));
      await once(child, 'close');
      assert.equal(child.exitCode, exitCodes.failed);
      assert.equal(stderr, 'The output cannot be written (ENOSPC).\n');
    },
  );

  test('output that is closed early ends a service command without a message', async (t) => {
    const shell = await openShell(t);
    const { child, ended } = shell.start(['openapi']);
    child.stdout?.destroy();
    const { code, stderr } = await ended();
    assert.deepEqual([code, stderr], [exitCodes.done, '']);
  });

  test('leat logout --json prints JSON', async (t) => {
    const shell = await openShell(t);
    const { stdout } = await shell.leat(['logout', '--json']);
    assert.deepEqual(JSON.parse(stdout), { logged_out: [] });
  });

  test('JSON that a server indents by tabs stays JSON', () => {
    const value = { a: ['\t\r\n\u2028'] };
    const tabbed = JSON.stringify(value, undefined, '\t').replaceAll('\n', '\r\n');
    assert.deepEqual(JSON.parse(terminalSafe(tabbed)), value);
  });
});

test('leat listen keeps running when a sender disconnects within a request', async (t) => {
  const shell = await openShell(t);
  const listening = shell.start(['listen', '--port', '0', '--count', '2']);
  await waitFor('an address', () => listening.stderr().includes('Listening'));
  const port = Number(/:(\d+)\//.exec(listening.stderr())?.[1]);
  const sender = connect(port, '127.0.0.1');
  sender.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc', () =>
    sender.destroy(),
  );
  await waitFor('the abort', () => listening.stderr().includes('The sender aborted a request.'));
  const { status } = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{}' });
  assert.equal(status, 204);
  const { code, stdout } = await listening.ended();
  assert.equal(code, 0);
  assert.match(stdout, /→ 204\n$/);
});

test('the help of every service command has an example', () => {
  const program = new Command('leat');
  const tenants = program.command('tenants');
  const [start, create] = [program.command('start'), tenants.command('create <name>')];
  const outputOf = (command: Command): string => {
    let text = '';
    command.configureOutput({ writeOut: (chunk) => (text += chunk) }).outputHelp();
    return text;
  };
  addServiceExamples(program);
  assert.match(outputOf(start), /\nExamples:\n {2}leat start\n/);
  assert.match(outputOf(create), /\nExamples:\n {2}leat tenants create acme acme\.example\.com\n/);
});

describe('pathOf', () => {
  test('percent-encodes its parameters', () => {
    assert.equal(pathOf`/users/${'a|b/../?#'}`, '/users/a%7Cb%2F..%2F%3F%23');
  });

  for (const part of ['', '.', '..']) {
    test(`refuses the parameter "${part}", which would name another resource`, () => {
      assert.throws(
        () => pathOf`/event-streams/${id}/replay/${part}`,
        (error) => error instanceof CommandFailed && error.exitCode === exitCodes.usage,
      );
    });
  }
});

describe('readLines', () => {
  const read = (...chunks: readonly Buffer[]) =>
    Array.fromAsync(readLines(ReadableStream.from(chunks) as unknown as AsyncIterable<Uint8Array>));

  test('splits at LF or CRLF only, however the bytes are cut', async () => {
    const whole = Buffer.from('\uFEFFa\u2028ü\r\n\r\n\uFEFFb\u0085\n', 'utf8');
    const expected = ['a\u2028ü', '', '\uFEFFb\u0085'];
    assert.deepEqual(await read(whole), expected);
    assert.deepEqual(await read(...Array.from(whole, (byte) => Buffer.from([byte]))), expected);
    assert.deepEqual(await read(Buffer.from('a\nb')), ['a', 'b']);
    assert.deepEqual(await read(), []);
  });

  test('rejects a line that is not UTF-8, by its number', async () => {
    await assert.rejects(read(Buffer.from('a\n'), Buffer.from([0x22, 0xff, 0x22])), {
      message: /^Line 2 of the input is not UTF-8/,
    });
  });
});
