import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { wordOf } from '../../src/core/stream-word.ts';

describe('words of streams in commands', () => {
  test('wordOf: a name that a shell, an option parser or the lookup of ids may misread is replaced by the id', () => {
    const id = 'est_MASi45ub7Qe4ZE36UT5G6c';
    for (const name of [
      '--yes',
      '-x',
      'a b',
      "it's",
      '"',
      '$(reboot)',
      '`reboot`',
      'a;reboot',
      'a\nreboot',
      'a|b',
      '~root',
      'a&b',
      '%PATH%',
      '*',
      '',
      'x'.repeat(129),
      'est_111111111111111111111A',
      'crm\u202e',
      'çrm',
    ]) {
      assert.equal(wordOf({ id, name }), id, name);
    }
    for (const name of ['crm', 'crm-2', 'a.b_c', '7']) assert.equal(wordOf({ id, name }), name);
  });
});
