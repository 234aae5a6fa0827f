import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CommandFailed, exitCodes } from '../../../src/cli/errors.ts';
import { pathOf } from '../../../src/cli/http/api-client.ts';
import { openShell } from '../shell.ts';
import { startFake } from './fixture.ts';

const id = `est_${'1'.repeat(22)}`;

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
});

describe('pathOf', () => {
  test('pathOf: percent-encodes its parameters', () => {
    assert.equal(pathOf`/users/${'a|b/../?#'}`, '/users/a%7Cb%2F..%2F%3F%23');
  });

  for (const part of ['', '.', '..']) {
    test(`pathOf: refuses the parameter "${part}", which would name another resource`, () => {
      assert.throws(
        () => pathOf`/event-streams/${id}/replay/${part}`,
        (error) => error instanceof CommandFailed && error.exitCode === exitCodes.usage,
      );
    });
  }
});
