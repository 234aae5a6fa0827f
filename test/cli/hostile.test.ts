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

/** A server that gives a token and answers everything else in its own way. */
async function pretender(t: TestContext, answer: RequestListener) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    request.resume();
    asked.push(`${request.method} ${request.url}`);
    if (request.url !== '/oauth/token') return answer(request, response);
    response.end('{"access_token":"token","expires_in":3600}');
  }).listen(0, '127.0.0.1');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { asked, env: { LEAT_URL: url, LEAT_CLIENT_ID: 'a', LEAT_CLIENT_SECRET: 'b-secret' } };
}

describe('a server that is no Leat', { concurrency: 2 }, () => {
  const bodies: [body: string, words: readonly string[]][] = [
    ['null', ['streams', 'show', id]],
    ['{"eventStreams":[null]}', ['streams', 'list']],
    ['{"eventStreams":[{"id":5}]}', ['streams', 'list']],
    ['null', ['events', 'publish', '--type', 'a.b']],
    ['', ['users', 'show', 'a|b']],
    ['{}', ['listen', '--stream', id, '--port', '0']],
  ];
  for (const [body, words] of bodies) {
    test(`that answers "${body}" to ${words.slice(0, 2).join(' ')} is told of in one line`, async (t) => {
      const shell = await openShell(t);
      const { env } = await pretender(t, (_request, response) => response.end(body));
      const { code, stdout, stderr } = await shell.leat(words, { env });
      assert.equal(code, exitCodes.failed, stderr);
      assert.equal(stdout, '');
      assert.match(stderr, /^http:\/\/127\.0\.0\.1:\d+ [^\n]+\n$/);
    });
  }

  test('that cuts a refusal off cannot be reached, also where the answer goes on', async (t) => {
    const shell = await openShell(t);
    const { env } = await pretender(t, (_request, response) => {
      response.writeHead(403, { 'content-length': 100 });
      response.write('{', () => response.destroy());
    });
    const { code, stderr } = await shell.leat(['events', 'tail'], { env });
    assert.equal(code, exitCodes.unavailable);
    assert.match(stderr, /cannot be reached: the connection was cut/);
  });

  test('that points elsewhere gets no token there', async (t) => {
    const shell = await openShell(t);
    const other = await pretender(t, (_request, response) => response.end('{}'));
    const { env } = await pretender(t, (_request, response) => {
      response.writeHead(308, { location: `${other.env.LEAT_URL}/x` }).end();
    });
    const { code, stderr } = await shell.leat(['streams', 'list'], { env });
    assert.equal(code, exitCodes.failed);
    assert.match(stderr, /It points to http:\/\/127\.0\.0\.1:\d+\. If that is right: leat login/);
    assert.deepEqual(other.asked, []);
  });

  test('that is not there while a proxy is ends with 6', () => {
    for (const status of [502, 504]) {
      const { exitCode } = apiError({ status, text: '<html>' }, { url: 'http://a', clientId: '' });
      assert.equal(exitCode, exitCodes.unavailable, String(status));
    }
  });
});

describe('the output', { concurrency: 2 }, () => {
  test('that cannot be written is a failure', { skip: process.platform !== 'linux' }, async (t) => {
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [leatProgram, 'completion', 'bash'], {
      stdio: ['ignore', full, 'pipe'],
    });
    let said = '';
    child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
    t.after(() => child.kill('SIGKILL'));
    await once(child, 'close');
    assert.equal(child.exitCode, exitCodes.failed);
    assert.equal(said, 'The output cannot be written (ENOSPC).\n');
  });

  test('that nobody reads any more ends a command of the service without a word', async (t) => {
    const shell = await openShell(t);
    const { child, ended } = shell.start(['openapi']);
    child.stdout?.destroy();
    const { code, stderr } = await ended();
    assert.deepEqual([code, stderr], [exitCodes.done, '']);
  });

  test('of a logout is JSON for programs', async (t) => {
    const shell = await openShell(t);
    const { stdout } = await shell.leat(['logout', '--json']);
    assert.deepEqual(JSON.parse(stdout), { logged_out: [] });
  });

  test('of a server that lays its JSON out by tabs stays JSON', () => {
    const value = { a: ['\t\r\n\u2028'] };
    const laidOut = JSON.stringify(value, undefined, '\t').replaceAll('\n', '\r\n');
    assert.deepEqual(JSON.parse(terminalSafe(laidOut)), value);
  });
});

test('leat listen outlives a sender that goes away in the middle', async (t) => {
  const shell = await openShell(t);
  const listening = shell.start(['listen', '--port', '0', '--count', '2']);
  await waitFor('an address', () => listening.stderr().includes('Listening'));
  const port = Number(/:(\d+)\//.exec(listening.stderr())?.[1]);
  const rude = connect(port, '127.0.0.1');
  rude.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc', () => rude.destroy());
  await waitFor('the cut', () => listening.stderr().includes('cut off by its sender'));
  const { status } = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{}' });
  assert.equal(status, 204);
  const { code, stdout } = await listening.ended();
  assert.equal(code, 0);
  assert.match(stdout, /→ 204\n$/);
});

test('the help of every command of the service has an example', () => {
  const program = new Command('leat');
  const tenants = program.command('tenants');
  const [start, create] = [program.command('start'), tenants.command('create <name>')];
  const outputOf = (command: Command): string => {
    let text = '';
    command.configureOutput({ writeOut: (piece) => (text += piece) }).outputHelp();
    return text;
  };
  addServiceExamples(program);
  assert.match(outputOf(start), /\nExamples:\n {2}leat start\n/);
  assert.match(outputOf(create), /\nExamples:\n {2}leat tenants create acme acme\.example\.com\n/);
});

describe('a part of a path', () => {
  test('is percent-encoded', () => {
    assert.equal(pathOf`/users/${'a|b/../?#'}`, '/users/a%7Cb%2F..%2F%3F%23');
  });

  for (const part of ['', '.', '..']) {
    test(`"${part}" would mean another resource and is refused`, () => {
      assert.throws(
        () => pathOf`/event-streams/${id}/replay/${part}`,
        (error) => error instanceof CommandFailed && error.exitCode === exitCodes.usage,
      );
    });
  }
});

describe('the lines of a text', () => {
  const read = (...pieces: readonly Buffer[]) =>
    Array.fromAsync(readLines(ReadableStream.from(pieces) as unknown as AsyncIterable<Uint8Array>));

  test('end at LF or CRLF alone, wherever the pieces end', async () => {
    const whole = Buffer.from('\uFEFFa\u2028ü\r\n\r\n\uFEFFb\u0085\n', 'utf8');
    const expected = ['a\u2028ü', '', '\uFEFFb\u0085'];
    assert.deepEqual(await read(whole), expected);
    assert.deepEqual(await read(...Array.from(whole, (byte) => Buffer.from([byte]))), expected);
    assert.deepEqual(await read(Buffer.from('a\nb')), ['a', 'b']);
    assert.deepEqual(await read(), []);
  });

  test('that are not UTF-8 are refused with their number, and not changed', async () => {
    await assert.rejects(read(Buffer.from('a\n'), Buffer.from([0x22, 0xff, 0x22])), {
      message: /^Line 2 of the input is not UTF-8/,
    });
  });
});
