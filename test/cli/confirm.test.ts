import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { confirmed } from '../../src/cli/confirm.ts';
import { CommandFailed } from '../../src/cli/errors.ts';
import { createTerminal } from '../../src/cli/terminal/terminal.ts';

/** Creates a terminal of 40 columns, or of pipes, and collects its output. */
function open({ isTTY = true, colour = true } = {}) {
  const raw: boolean[] = [];
  const screen = () => Object.assign(new PassThrough(), { isTTY, columns: 40 });
  const stdin = Object.assign(new PassThrough(), {
    isTTY,
    setRawMode: (on: boolean) => raw.push(on),
  });
  const [stdout, stderr] = [screen(), screen()];
  const terminal = createTerminal({ stdin, stdout, stderr }, { colour });
  const written = { out: '', error: '' };
  stdout.on('data', (chunk: Buffer) => (written.out += chunk.toString()));
  stderr.on('data', (chunk: Buffer) => (written.error += chunk.toString()));
  return { terminal, stdin, raw, written };
}

describe('confirmed', () => {
  const cases: [string, boolean][] = [
    ['y', true],
    ['Yes', true],
    ['n', false],
    ['', false],
    ['yesterday', false],
  ];
  for (const [answer, done] of cases) {
    test(`confirmed: takes "${answer}" as ${done ? 'yes' : 'no'}`, async () => {
      const { terminal, stdin, written } = open();
      const reply = confirmed({ terminal }, 'Delete?', undefined);
      await setImmediate();
      stdin.write(`${answer}\n`);
      assert.equal(await reply, done);
      assert.match(written.error, /Delete\? \[y\/N\] /);
    });
  }

  test('confirmed: does not ask with --yes, and throws without a terminal', async () => {
    assert.equal(await confirmed(open({ isTTY: false }), 'Delete?', true), true);
    await assert.rejects(
      confirmed(open({ isTTY: false }), 'Delete?', undefined),
      (error) => error instanceof CommandFailed && error.exitCode === 2,
    );
  });
});
