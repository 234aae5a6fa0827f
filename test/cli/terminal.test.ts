import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { confirmed } from '../../src/cli/confirm.ts';
import { CommandFailed } from '../../src/cli/errors.ts';
import { createTerminal, type Terminal } from '../../src/cli/terminal/terminal.ts';

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

describe('a terminal', () => {
  test('has colours on a terminal unless they are off', () => {
    const painted = (terminal: Terminal) => terminal.paint('red', 'a') !== 'a';
    assert.equal(painted(open().terminal), true);
    assert.equal(painted(open({ colour: false }).terminal), false);
    assert.equal(painted(open({ isTTY: false }).terminal), false);
    assert.deepEqual(
      [open().terminal.width, open({ isTTY: false }).terminal.width],
      [40, undefined],
    );
  });

  test('shows progress in one line that the next output replaces', async () => {
    const { terminal, written } = open();
    terminal.progress('half');
    terminal.print('result');
    terminal.progress(undefined);
    await setImmediate();
    assert.deepEqual(written, { out: 'result\n', error: '\r\u001B[Khalf\r\u001B[K' });
    const pipe = open({ isTTY: false });
    pipe.terminal.progress('half');
    await setImmediate();
    assert.equal(pipe.written.error, '');
  });

  test('asks for a secret without showing what is typed', async () => {
    const { terminal, stdin, raw, written } = open();
    const reply = terminal.askSecret('Secret: ');
    stdin.write('pass');
    stdin.write('w\u007Fword\r');
    assert.equal(await reply, 'password');
    await setImmediate();
    assert.equal(written.error, 'Secret: \n');
    assert.deepEqual(raw, [true, false]);
  });

  test('cancels a question at Ctrl-C and leaves raw mode', async () => {
    const { terminal, stdin, raw } = open();
    const reply = terminal.askSecret('Secret: ');
    stdin.write('a\u0003');
    await assert.rejects(
      reply,
      (error) => error instanceof CommandFailed && error.exitCode === 130,
    );
    assert.deepEqual(raw, [true, false]);
  });
});

describe('confirmed', () => {
  const cases: [string, boolean][] = [
    ['y', true],
    ['Yes', true],
    ['n', false],
    ['', false],
    ['yesterday', false],
  ];
  for (const [answer, done] of cases) {
    test(`takes "${answer}" as ${done ? 'yes' : 'no'}`, async () => {
      const { terminal, stdin, written } = open();
      const reply = confirmed({ terminal }, 'Delete?', undefined);
      await setImmediate();
      stdin.write(`${answer}\n`);
      assert.equal(await reply, done);
      assert.match(written.error, /Delete\? \[y\/N\] /);
    });
  }

  test('does not ask with --yes, and throws without a terminal', async () => {
    assert.equal(await confirmed(open({ isTTY: false }), 'Delete?', true), true);
    await assert.rejects(
      confirmed(open({ isTTY: false }), 'Delete?', undefined),
      (error) => error instanceof CommandFailed && error.exitCode === 2,
    );
  });
});
