import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mailbox, storedForms, userEmail } from '../../src/core/mailbox.ts';

describe('mailbox', () => {
  const forms: [text: string, form: string][] = [
    ['Ada@Example.COM', 'Ada@example.com'],
    ['ada@xn--bcher-kva.example', 'ada@bücher.example'],
    ['ada@XN--BCHER-KVA.example.', 'ada@bücher.example'],
    ['zoe\u0308@bu\u0308cher.example', 'zoë@bücher.example'],
    ['ada@example。com。', 'ada@example.com'],
    ['ada@faß.de', 'ada@faß.de'],
    ['ada@exa\u00ADmple.com', 'ada@example.com'],
    ['ada@\uFEFFexam\u200Bple\u2060.com', 'ada@example.com'],
    ['ada@b\u00ADücher.example', 'ada@bücher.example'],
    ['ada@ＥＸＡＭＰＬＥ.com', 'ada@example.com'],
    ['ada@xn--i-7iq.ws', 'ada@i❤.ws'],
    ['ada@i❤\uFE0F.ws', 'ada@i❤.ws'],
    // Not valid: they stay, for the check to refuse.
    ['ada@x..', 'ada@x..'],
    ['ada@exa\u202Emple.com', 'ada@exa\u202Emple.com'],
    ['ada@\u00AD', 'ada@\u00AD'],
    // No domain names: they stay as they are, and lose nothing.
    ['ada@127.1', 'ada@127.1'],
    ['ada@[::1]', 'ada@[::1]'],
    ['ada@bü/cher:80', 'ada@bü/cher:80'],
    ['ada@xn--zzzz9999', 'ada@xn--zzzz9999'],
    ['ada@.', 'ada@.'],
    ['ada', 'ada'],
    ['', ''],
  ];
  for (const [text, form] of forms) {
    test(`mailbox: "${text}" is "${form}", which stays as it is`, () => {
      assert.equal(mailbox(text), form);
      assert.equal(mailbox(form), form);
      assert.equal(userEmail(text), form.toLowerCase());
    });
  }

  test('storedForms: the present form, and those in which the same mailbox may be stored', () => {
    assert.deepEqual(storedForms('ADA@x.y'), ['ada@x.y', 'ada@x.y.']);
    const all = storedForms('zoë@bücher.example');
    assert.equal(all[0], 'zoë@bücher.example');
    assert.equal(new Set(all).size, 12);
    for (const form of all) assert.equal(userEmail(form), all[0]);
  });

  test('storedForms: the text itself, with what the present form does not have', () => {
    for (const text of [
      'soft@exam\u00ADple.com',
      'a@bücher.example..',
      'x@ＥＸ.com',
      'zoe\u0308',
    ]) {
      const lower = text.toLowerCase();
      assert.ok(storedForms(text.toUpperCase()).includes(lower), text);
      assert.ok(storedForms(text).includes(lower.normalize('NFC')), text);
    }
  });
});
