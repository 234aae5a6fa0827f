import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { describe, test } from 'node:test';
import { exitCodes } from '../../src/cli/errors.ts';
import { leatProgram } from '../helpers/leat.ts';
import { openShell } from './shell.ts';

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
});
