import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Command, Option } from 'commander';
import { completablesOf } from '../../src/cli/completion.ts';
import { completionScript } from '../../src/cli/completion-scripts.ts';
import { compileCache, leatProgram, waitFor } from '../helpers/leat.ts';
import { openLoggedInShell, openServer, openShell, type Shell } from './shell.ts';

function tree(): Command {
  const program = new Command('leat').version('1');
  program.command('hidden', { hidden: true });
  const streams = program.command('streams').description("streams: it's theirs");
  streams
    .command('list')
    .description('list them')
    .option('--json', 'as JSON')
    .option('--stream <stream>', 'of one')
    .addOption(new Option('--by <what>').choices(['name', 'age']))
    .action(() => {});
  return program;
}

/** Returns the completions that bash offers for the last word; `typed` is the line of words. */
function offered(
  script: string,
  words: readonly string[],
  env?: NodeJS.ProcessEnv,
  typed = words.join(' '),
): string[] {
  const list = words.map((word) => `'${word}'`).join(' ');
  // Outside of a completion `compopt` fails; it only suppresses the names of files.
  const call = `compopt() { :; }; COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; COMP_LINE='${typed}'; _leat; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = spawnSync('bash', ['-c', `${script}\n${call}`], {
    encoding: 'utf8',
    ...(env === undefined ? {} : { env }),
  });
  assert.equal(status, 0, stderr);
  assert.equal(stderr, '');
  return stdout.split('\n').filter((line) => line !== '');
}

/** Returns what is offered once the server has responded in time: on a busy machine it may not, at first. */
const named = (attempt: () => readonly string[]): Promise<readonly string[]> =>
  waitFor('names in time', () => {
    const words = attempt();
    return words.length > 0 && words;
  });

describe('shell completion', () => {
  test('leat completion: lists the commands, without hidden ones', () => {
    const commands = completablesOf(tree());
    assert.deepEqual(
      commands.map(({ path, words }) => [path.join(' '), words.map(({ word }) => word)]),
      [
        ['', ['streams', '--version', '--help']],
        ['streams', ['list', '--help']],
        ['streams list', ['--json', '--stream', '--by', '--help']],
      ],
    );
  });

  test('leat completion: quotes descriptions for every shell', () => {
    const commands = completablesOf(tree());
    assert.ok(completionScript('fish', commands).includes(`-d 'streams: it'"'"'s theirs'`));
    assert.ok(completionScript('zsh', commands).includes(`'streams:streams: it'"'"'s theirs'`));
  });

  test(
    'leat completion: completes sub-commands and options of the real program in bash',
    { tags: ['long'] },
    async (t) => {
      const shell = await openShell(t);
      const { code, stdout } = await shell.run(['completion', 'bash']);
      assert.equal(code, 0);
      assert.deepEqual(offered(stdout, ['leat', 'stre']), ['streams']);
      assert.deepEqual(offered(stdout, ['leat', 'streams', 'd']).toSorted(), ['delete', 'disable']);
      assert.deepEqual(offered(stdout, ['leat', 'streams', 'enable', 'crm', '--re']), ['--resume']);
      assert.deepEqual(offered(stdout, ['leat', 'tenants', '']).slice(0, 2), ['list', 'create']);
      assert.deepEqual(offered(stdout, ['leat', 'dev', 'user.d']), ['user.deleted']);
      assert.ok(!stdout.includes('companion'));
      for (const other of ['zsh', 'fish']) {
        const script = await shell.leat(['completion', other]);
        assert.equal(script.code, 0);
        assert.match(script.stdout, /streams/);
      }
      assert.equal((await shell.leat(['completion', 'tcsh'])).code, 2);
    },
  );

  test(
    'leat completion: completes fixed values of options, also the last one of a list',
    { tags: ['long'] },
    async (t) => {
      const shell = await openShell(t);
      const { stdout } = await shell.leat(['completion', 'bash']);
      assert.deepEqual(offered(stdout, ['leat', 'failures', '--by', '']), ['cause', 'stream']);
      assert.deepEqual(offered(stdout, ['leat', 'failures', '--cause', '50']), [
        '500',
        '502',
        '503',
        '504',
      ]);
      assert.deepEqual(offered(stdout, ['leat', 'failures', '--cause', '503,tim']), [
        '503,timeout',
      ]);
      assert.deepEqual(offered(stdout, ['leat', 'events', 'tail', '--type', 'user.d']), [
        'user.deleted',
      ]);
      assert.deepEqual(offered(stdout, ['leat', 'logs', '--type', 'leat_o']), ['leat_operator']);
      assert.deepEqual(offered(stdout, ['leat', 'completion', 'z']), ['zsh']);
      assert.deepEqual(offered(stdout, ['leat', 'failures', '--cause', '503', '--b']), ['--by']);
      assert.deepEqual(offered(stdout, ['leat', 'deliveries', 'list', '--limit', '--a']), []);
    },
  );

  test(
    'leat completion: completes names of streams, asked of the server',
    { tags: ['long'] },
    async (t) => {
      const leat = await openServer();
      t.after(() => leat.close());
      const shell = await openLoggedInShell(t, leat);
      for (const name of ['crm', "crm 'two' $(x)", 'billing']) {
        const words = ['streams', 'create', '--inspect', '--name', name];
        assert.equal((await shell.leat(words)).code, 0);
      }
      const bash = (await shell.leat(['completion', 'bash'])).stdout;
      const env = await environmentOf(shell);
      const offeredNow = (...words: string[]) => offered(bash, ['leat', ...words], env);
      const names = (...words: string[]) => named(() => offeredNow(...words));
      assert.deepEqual(await names('streams', 'show', ''), [
        'billing',
        'crm',
        "crm\\ \\'two\\'\\ \\$\\(x\\)",
      ]);
      assert.deepEqual(await names('streams', 'show', 'b'), ['billing']);
      assert.equal((await names('streams', 'show', 'crm\\ ')).length, 1);
      const part = await waitFor('names in time', async () => {
        const ended = await shell.leat(['completion-names', 'illi']);
        return (ended.code !== 0 || ended.stdout !== '') && ended;
      });
      assert.deepEqual(part, { code: 0, stdout: 'billing\n', stderr: '' });
      assert.deepEqual(await names('deliveries', 'list', '--limit', '3', 'b'), ['billing']);
      assert.deepEqual(await names('redeliver', '--cause', '503', 'b'), ['billing']);
      assert.deepEqual(await names('failures', '--stream', 'b'), ['billing']);
      assert.deepEqual(offeredNow('redeliver', 'crm', 'b'), []);
      assert.deepEqual(offeredNow('why', 'b'), []);
    },
  );

  test(
    'leat completion: completes names that bash takes apart, and values after =',
    { tags: ['long'] },
    async (t) => {
      const leat = await openServer();
      t.after(() => leat.close());
      const shell = await openLoggedInShell(t, leat);
      for (const name of ['eu:crm:one', 'eu:crm:two', 'eu:a=b', 'eu: c']) {
        const words = ['streams', 'create', '--inspect', '--name', name];
        assert.equal((await shell.leat(words)).code, 0);
      }
      const bash = (await shell.leat(['completion', 'bash'])).stdout;
      const env = await environmentOf(shell);
      // The words as bash passes them: each : and = is one.
      const show = (line: string, ...parts: string[]) =>
        named(() =>
          offered(bash, ['leat', 'streams', 'show', ...parts], env, `leat streams show ${line}`),
        );
      assert.equal((await show('eu', 'eu')).length, 4);
      assert.deepEqual(await show('eu:cr', 'eu', ':', 'cr'), ['crm:one', 'crm:two']);
      assert.deepEqual(await show('eu:crm:', 'eu', ':', 'crm', ':'), ['one', 'two']);
      assert.deepEqual(await show('eu:crm:t', 'eu', ':', 'crm', ':', 't'), ['two']);
      assert.deepEqual(await show('eu:a=', 'eu', ':', 'a', '='), ['b']);
      assert.deepEqual(await show('eu:crm:one --j', 'eu', ':', 'crm', ':', 'one', '--j'), [
        '--json',
      ]);
      assert.equal((await show('eu: ', 'eu', ':', ''))[0], '--json');
      const at = ['leat', 'failures', '--stream', '=', 'eu', ':', 'crm', ':', 't'];
      const ofStream = await named(() => offered(bash, at, env, 'leat failures --stream=eu:crm:t'));
      assert.deepEqual(ofStream, ['two']);
      const by = ['leat', 'failures', '--by', '=', 'ca'];
      assert.deepEqual(offered(bash, by, env, 'leat failures --by=ca'), ['cause']);
      const after = ['leat', 'failures', '--by', '=', 'cause', '--st'];
      assert.deepEqual(offered(bash, after, env, 'leat failures --by=cause --st'), ['--stream']);
    },
  );

  test(
    'leat completion: is silent without a login and without a server',
    { tags: ['long'] },
    async (t) => {
      const shell = await openShell(t);
      const bash = (await shell.leat(['completion', 'bash'])).stdout;
      const env = await environmentOf(shell);
      assert.deepEqual(offered(bash, ['leat', 'streams', 'show', ''], env), []);
      const away = { LEAT_URL: 'http://127.0.0.1:1', LEAT_CLIENT_ID: 'a', LEAT_CLIENT_SECRET: 'b' };
      assert.deepEqual(offered(bash, ['leat', 'streams', 'show', ''], { ...env, ...away }), []);
      const silent = createServer(() => undefined).listen(0, '127.0.0.1');
      t.after(() => {
        silent.close();
        silent.closeAllConnections();
      });
      await once(silent, 'listening');
      const { port } = silent.address() as { port: number };
      const hung = { ...away, LEAT_URL: `http://127.0.0.1:${port}` };
      const ended = await shell.run(['completion-names'], { env: hung });
      assert.deepEqual(ended, { code: 0, stdout: '', stderr: '' });
    },
  );

  const fish: string = 'fish';
  test('leat completion: completes in fish', { skip: isMissing(fish) }, async (t) => {
    const shell = await openShell(t);
    const { stdout } = await shell.leat(['completion', 'fish']);
    const env = await environmentOf(shell);
    const offeredFor = (line: string): string[] => {
      const words = ['--no-config', '-c', `${stdout}\ncomplete -C '${line}'`];
      const ended = spawnSync(fish, words, { encoding: 'utf8', env });
      assert.deepEqual([ended.status, ended.stderr], [0, '']);
      return ended.stdout.split('\n').flatMap((text) => text.split('\t')[0] || []);
    };
    assert.deepEqual(offeredFor('leat stre'), ['streams']);
    assert.deepEqual(offeredFor('leat failures --by '), ['cause', 'stream']);
    assert.deepEqual(offeredFor('leat completion z'), ['zsh']);
    assert.deepEqual(offeredFor('leat failures --cause 503 --b'), ['--by']);
  });

  test('leat completion: completes in zsh', { skip: isMissing('zsh') }, async (t) => {
    const shell = await openShell(t);
    const { stdout } = await shell.leat(['completion', 'zsh']);
    // The functions of its completion system, which exist only at a prompt.
    const system =
      'compdef() { :; }; compset() { :; }; compadd() { print -l -- "$@"; }; _describe() { print -l -- $candidates; }';
    const offeredFor = (...words: readonly string[]): string[] => {
      const list = words.map((word) => `'${word}'`).join(' ');
      const call = `words=(${list}); CURRENT=${words.length}; PREFIX=''; _leat`;
      const ended = spawnSync('zsh', ['-f', '-c', `${system}\n${stdout}\n${call}`], {
        encoding: 'utf8',
      });
      assert.deepEqual([ended.status, ended.stderr], [0, '']);
      return ended.stdout.trimEnd().split('\n');
    };
    assert.deepEqual(offeredFor('leat', 'failures', '--by', ''), ['--', 'cause', 'stream']);
    assert.deepEqual(offeredFor('leat', 'completion', ''), ['--', 'bash', 'zsh', 'fish']);
    assert.match(offeredFor('leat', 'streams', '').join(), /^list:list the event streams/);
  });
});

/** Returns whether a shell is not installed. */
function isMissing(name: string): boolean {
  return spawnSync(name, ['--version']).error !== undefined;
}

/** Returns an environment in which the program is called `leat`. */
async function environmentOf({ home }: Shell): Promise<NodeJS.ProcessEnv> {
  const file = join(home, 'leat');
  await writeFile(file, `#!/bin/sh\nexec '${process.execPath}' '${leatProgram}' "$@"\n`, {
    mode: 0o755,
  });
  const PATH = `${home}:${process.env['PATH'] ?? ''}`;
  return { PATH, HOME: home, XDG_CONFIG_HOME: join(home, 'x'), ...compileCache };
}
