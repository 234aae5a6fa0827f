import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { CommandFailed } from '../../../src/cli/errors.ts';
import { pressKeys, type Terminal } from '../../../src/cli/terminal/terminal.ts';
import { openTerminal } from './fixture.ts';

describe('a terminal', () => {
  test('terminal: has colours on a terminal unless they are off', () => {
    const painted = (terminal: Terminal) => terminal.paint('red', 'a') !== 'a';
    assert.equal(painted(openTerminal().terminal), true);
    assert.equal(painted(openTerminal({ colour: false }).terminal), false);
    assert.equal(painted(openTerminal({ isTTY: false }).terminal), false);
    assert.deepEqual(
      [openTerminal().terminal.width, openTerminal({ isTTY: false }).terminal.width],
      [40, undefined],
    );
  });

  test('terminal: shows progress in one line that the next output replaces', async () => {
    const { terminal, written } = openTerminal();
    terminal.progress('half');
    terminal.print('result');
    terminal.progress(undefined);
    await setImmediate();
    assert.deepEqual(written, { out: 'result\n', error: '\r\u001B[Khalf\r\u001B[K' });
    const pipe = openTerminal({ isTTY: false });
    pipe.terminal.progress('half');
    await setImmediate();
    assert.equal(pipe.written.error, '');
  });

  test('terminal: asks for a secret without showing what is typed', async () => {
    const { terminal, stdin, raw, written } = openTerminal();
    const reply = terminal.askSecret('Secret: ');
    stdin.write('pass');
    stdin.write('w\u007Fword\r');
    assert.equal(await reply, 'password');
    await setImmediate();
    assert.equal(written.error, 'Secret: \n');
    assert.deepEqual(raw, [true, false]);
  });

  test('terminal: cancels a question at Ctrl-C and leaves raw mode', async () => {
    const { terminal, stdin, raw } = openTerminal();
    const reply = terminal.askSecret('Secret: ');
    stdin.write('a\u0003');
    await assert.rejects(
      reply,
      (error) => error instanceof CommandFailed && error.exitCode === 130,
    );
    assert.deepEqual(raw, [true, false]);
  });
});

describe('pressKeys', () => {
  test('pressKeys: ends at Enter and applies editing keys', () => {
    assert.deepEqual(pressKeys('', 'secret\r'), { typed: 'secret', ended: 'entered' });
    assert.deepEqual(pressKeys('ab', '\u007Fc'), { typed: 'ac' });
    assert.deepEqual(pressKeys('ab', '\u0015c\n'), { typed: 'c', ended: 'entered' });
    assert.deepEqual(pressKeys('👍', '\u007F'), { typed: '' });
    assert.deepEqual(pressKeys('a', '\u001B\u0004'), { typed: 'a' });
  });

  test('pressKeys: ends at Ctrl-C, and at Ctrl-D in an empty line', () => {
    assert.deepEqual(pressKeys('ab', '\u0003'), { typed: 'ab', ended: 'interrupted' });
    assert.deepEqual(pressKeys('', '\u0004'), { typed: '', ended: 'interrupted' });
  });
});
