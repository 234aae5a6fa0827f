import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { Command } from 'commander';
import { completablesOf, completionScript } from '../../src/cli/completion.ts';
import { openShell } from './shell.ts';

function tree(): Command {
  const program = new Command('leat').version('1');
  program.command('hidden', { hidden: true });
  const streams = program.command('streams').description("streams: it's theirs");
  streams
    .command('list')
    .description('list them')
    .option('--json', 'as JSON')
    .action(() => {});
  return program;
}

/** Returns the completions that bash offers for the last word. */
function offered(script: string, words: readonly string[]): string[] {
  const list = words.map((word) => `'${word}'`).join(' ');
  const call = `COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _leat; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync('bash', ['-c', `${script}\n${call}`], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return stdout.split('\n').filter((line) => line !== '');
}

describe('shell completion', () => {
  test('leat completion: lists the commands, without hidden ones', () => {
    const commands = completablesOf(tree());
    assert.deepEqual(
      commands.map(({ path, words }) => [path.join(' '), words.map(({ word }) => word)]),
      [
        ['', ['streams', '--version', '--help']],
        ['streams', ['list', '--help']],
        ['streams list', ['--json', '--help']],
      ],
    );
  });

  test('leat completion: quotes descriptions for every shell', () => {
    const commands = completablesOf(tree());
    assert.ok(completionScript('fish', commands).includes(`-d 'streams: it'"'"'s theirs'`));
    assert.ok(completionScript('zsh', commands).includes(`'streams:streams: it'"'"'s theirs'`));
  });

  test('leat completion: completes sub-commands and options of the real program in bash', async (t) => {
    const shell = await openShell(t);
    const { code, stdout } = await shell.leat(['completion', 'bash']);
    assert.equal(code, 0);
    assert.deepEqual(offered(stdout, ['leat', 'stre']), ['streams']);
    assert.deepEqual(offered(stdout, ['leat', 'streams', 'd']).toSorted(), ['delete', 'disable']);
    assert.deepEqual(offered(stdout, ['leat', 'streams', 'enable', 'crm', '--re']), ['--resume']);
    assert.deepEqual(offered(stdout, ['leat', 'tenants', '']).slice(0, 2), ['list', 'create']);
    assert.ok(!stdout.includes('companion'));
    for (const other of ['zsh', 'fish']) {
      const script = await shell.leat(['completion', other]);
      assert.equal(script.code, 0);
      assert.match(script.stdout, /streams/);
    }
    assert.equal((await shell.leat(['completion', 'tcsh'])).code, 2);
  });
});
