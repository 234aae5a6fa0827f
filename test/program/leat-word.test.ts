import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { leatWords } from '../../src/program/leat-word.ts';

const node = '/opt/node/bin/node';

describe('leatWords', () => {
  test('leatWords: "leat" where the first of that name on the search path is this program', () => {
    const entry = '/usr/lib/node_modules/leat/main.js';
    const other = '/home/ada/bin/leat';
    const words = (named: readonly string[]): readonly string[] =>
      leatWords({ entry, executable: node, named });
    assert.deepEqual(words([entry]), ['leat']);
    assert.deepEqual(words([other, entry]), [node, entry]);
    assert.deepEqual(words([]), [node, entry]);
  });

  test('leatWords: the path of a program that is one executable', () => {
    const entry = '/home/ada/Downloads/leat';
    assert.deepEqual(leatWords({ entry, executable: entry, named: [] }), [entry]);
  });

  test(
    'leatWords: the words for a checkout start its program in any folder',
    { tags: ['long'] },
    async () => {
      const entry = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
      const words = leatWords({ entry, executable: node, named: [] });
      const [program = '', ...rest] = words;
      assert.equal(program, 'npm');
      const child = spawn(program, [...rest, '--version'], {
        cwd: tmpdir(),
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      assert.deepEqual(await once(child, 'close'), [0, null]);
      assert.match(output, /^[0-9]+\.[0-9]+\.[0-9]+\n$/);
    },
  );
});
