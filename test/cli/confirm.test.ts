import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { confirmed } from '../../src/cli/confirm.ts';
import { CommandFailed } from '../../src/cli/errors.ts';
import { openTerminal } from './terminal/fixture.ts';

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
      const { terminal, stdin, written } = openTerminal();
      const reply = confirmed({ terminal }, 'Delete?', undefined);
      await setImmediate();
      stdin.write(`${answer}\n`);
      assert.equal(await reply, done);
      assert.match(written.error, /Delete\? \[y\/N\] /);
    });
  }

  test('confirmed: does not ask with --yes, and throws without a terminal', async () => {
    assert.equal(await confirmed(openTerminal({ isTTY: false }), 'Delete?', true), true);
    await assert.rejects(
      confirmed(openTerminal({ isTTY: false }), 'Delete?', undefined),
      (error) => error instanceof CommandFailed && error.exitCode === 2,
    );
  });
});
