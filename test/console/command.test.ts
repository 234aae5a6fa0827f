import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { curlOf, quoted } from '../../src/console/command.ts';

const words = [
  'plain',
  'two words',
  "it's",
  '$(reboot)',
  '`id`',
  'a"b',
  'back\\slash',
  '* ?',
  '-n',
  'é',
];

for (const word of words) {
  test(`quoted: a shell reads back ${word}`, () => {
    const printed = execFileSync('sh', ['-c', `printf %s ${quoted(word)}`], { encoding: 'utf8' });
    assert.equal(printed, word);
  });
}

test('curlOf: the body is one word of the shell, and the token comes from a variable', () => {
  const text = curlOf(
    { method: 'POST', path: '/redeliveries', body: { reason: "it's $HOME" } },
    'https://leat.example',
  );
  const script = `curl() { for word in "$@"; do printf '%s\\n' "$word"; done; }; TOKEN=abc; ${text}`;
  assert.deepEqual(execFileSync('sh', ['-c', script], { encoding: 'utf8' }).trimEnd().split('\n'), [
    '-X',
    'POST',
    'https://leat.example/api/v2/redeliveries',
    '-H',
    'Authorization: Bearer abc',
    '-H',
    'Content-Type: application/json',
    '-d',
    '{"reason":"it\'s $HOME"}',
  ]);
});
