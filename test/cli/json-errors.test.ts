import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CommandFailed, exitCodes, failureJson, failureText } from '../../src/cli/errors.ts';
import { bootstrapClient, freePort } from '../helpers/leat.ts';
import { type Ended, openLoggedInShell, openServer, openShell } from './shell.ts';

/** Asserts that both streams hold JSON only; returns the error. */
function errorOf({ stdout, stderr }: Ended): unknown {
  assert.equal(stdout, '');
  const lines = stderr.trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as unknown).at(-1);
}

describe('failures as text and as JSON', () => {
  test('failureJson: escapes what a terminal might obey', () => {
    const text = failureJson(exitCodes.failed, 'a\u009B31m');
    assert.equal(text, '{"error":"failed","message":"a\\u009b31m"}');
  });

  test('failureText: adds the next step, and is empty for an interrupted command', () => {
    const failed = new CommandFailed(exitCodes.failed, 'Wrong.', { nextStep: 'Do it again.' });
    assert.equal(failureText(failed), 'Wrong.\nDo it again.');
    assert.equal(failureText(new CommandFailed(exitCodes.interrupted, '')), '');
    assert.equal(
      failureJson(exitCodes.interrupted, ''),
      '{"error":"interrupted","message":"Interrupted."}',
    );
    assert.equal(failureJson(exitCodes.failed, ''), '', 'the result says what is wrong');
  });
});

describe('--json', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_MAX_STREAMS: '1' });
  });
  after(() => leat.close());

  test('--json: errors of the server are one line of JSON with status, code and next step', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const missing = await shell.leat(['streams', 'show', `est_${'1'.repeat(22)}`, '--json']);
    assert.equal(missing.code, 4);
    assert.deepEqual(errorOf(missing), {
      error: 'not_found',
      message: 'The requested stream does not exist: est_1111111111111111111111',
      statusCode: 404,
      nextStep: 'These exist: leat streams list',
    });
    const create = ['streams', 'create', '--inspect', '--json', '--name'];
    assert.equal((await shell.leat([...create, 'one'])).code, 0);
    const many = await shell.leat([...create, 'two']);
    assert.equal(many.code, 5);
    assert.deepEqual(errorOf(many), {
      error: 'conflict',
      message: 'You have reached the maximum number of event streams.',
      errorCode: 'too_many_streams',
      statusCode: 409,
      nextStep: 'Delete one that is not needed: leat streams delete <stream>',
    });
  });

  test('--json: usage errors, missing commands and a missing login are JSON, too', async (t) => {
    const shell = await openShell(t);
    const cases: [words: readonly string[], code: number, error: object][] = [
      [
        ['streams', 'list', '--json', '--profle'],
        2,
        { error: 'usage', message: "unknown option '--profle'\n(Did you mean --profile?)" },
      ],
      [['failures', '--by', 'x', '--json'], 2, { error: 'usage' }],
      [
        ['streams', 'unknown', '--json'],
        2,
        { error: 'usage', message: "unknown command 'unknown'" },
      ],
      [['streams', '--json'], 2, { error: 'usage' }],
      [['streams', 'list', '--json'], 3, { error: 'authentication' }],
    ];
    for (const [words, code, expected] of cases) {
      const ended = await shell.leat(words);
      assert.equal(ended.code, code, words.join(' '));
      assert.partialDeepStrictEqual(errorOf(ended), expected);
    }
  });

  test('--json: a server that is not there, and a wrong secret', async (t) => {
    const shell = await openShell(t);
    const env = { LEAT_URL: leat.url, LEAT_CLIENT_ID: bootstrapClient.id, LEAT_CLIENT_SECRET: 'x' };
    const refused = await shell.leat(['streams', 'list', '--json'], { env });
    assert.equal(refused.code, 3);
    assert.partialDeepStrictEqual(errorOf(refused), { error: 'authentication', statusCode: 401 });
    const LEAT_URL = `http://127.0.0.1:${await freePort()}`;
    const absent = await shell.leat(['why', 'a', '--json'], { env: { ...env, LEAT_URL } });
    assert.equal(absent.code, 6);
    assert.partialDeepStrictEqual(errorOf(absent), { error: 'unavailable' });
  });

  test('--json: commands of the service report a refused start as JSON', async (t) => {
    const shell = await openShell(t);
    const env = { LEAT_STORE: 'nonsense' };
    const ended = await shell.run(['status', '--json'], { env });
    assert.equal(ended.code, 1);
    assert.partialDeepStrictEqual(errorOf(ended), { error: 'failed' });
  });

  test('--json: hints are JSON, too, and after -- it is no option', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const tail = await shell.leat(['events', 'tail', '--json', '--from', 'x']);
    assert.partialDeepStrictEqual(errorOf(tail), { error: 'failed', statusCode: 400 });
    const text = await shell.leat(['why', '--', '--json']);
    assert.deepEqual([text.code, text.stdout], [4, '']);
    assert.doesNotMatch(text.stderr, /^\{/);
    const login = ['login', leat.url, '--client-id', bootstrapClient.id, '--json'];
    const { code, stdout, stderr } = await shell.leat(login, { input: bootstrapClient.secret });
    assert.equal(code, 0);
    assert.deepEqual(Object.keys(JSON.parse(stdout) as object), ['url', 'client_id', 'profile']);
    assert.equal(stderr, '');
  });
});
