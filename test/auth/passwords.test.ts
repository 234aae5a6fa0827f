import assert from 'node:assert/strict';
import { argon2Sync, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { commonPasswords } from '../../src/auth/common-passwords.ts';
import { createPasswordHasher, isWeak } from '../../src/auth/passwords.ts';
import { random } from './fixture.ts';

const email = 'ada@example.com';

/** Hashes a password again with the salt and the costs that a PHC string names. */
function again(password: string, phc: string): string {
  const [, name, version, costs = '', salt = '', tag = ''] = phc.split('$');
  const cost = new Map(costs.split(',').map((pair) => pair.split('=') as [string, string]));
  const bytes = argon2Sync('argon2id', {
    message: password,
    nonce: Buffer.from(salt, 'base64'),
    memory: Number(cost.get('m')),
    passes: Number(cost.get('t')),
    parallelism: Number(cost.get('p')),
    tagLength: Buffer.from(tag, 'base64').length,
  });
  const text = bytes.toString('base64').replaceAll('=', '');
  return ['', name, version, costs, salt, text].join('$');
}

describe('the hash of a password', () => {
  test('is argon2id in PHC form, and that of the password alone', async () => {
    const phc = await createPasswordHasher({ random })('correct horse 9');
    assert.match(phc, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    assert.equal(again('correct horse 9', phc), phc);
    assert.notEqual(again('correct horse 8', phc), phc);
  });

  test('has a salt of its own each time', async () => {
    const hash = createPasswordHasher({ random });
    assert.notEqual(await hash('correct horse 9'), await hash('correct horse 9'));
  });

  test('is the same however the characters were composed', async () => {
    const hash = createPasswordHasher({ random: (count) => new Uint8Array(count) });
    assert.equal(await hash('caf\u00e9 au lait'), await hash('cafe\u0301 au lait'));
  });

  test('takes any characters', async () => {
    const password = '😀\u0000пароль';
    const phc = await createPasswordHasher({ random })(password);
    assert.equal(again(password, phc), phc);
  });

  test('is made for everybody who waits, also after one that failed', async () => {
    let calls = 0;
    const hash = createPasswordHasher({
      random: (count) => {
        calls += 1;
        if (calls === 2) throw new Error('no randomness');
        return randomBytes(count);
      },
    });
    const made = await Promise.allSettled(Array.from({ length: 6 }, () => hash('correct horse')));
    const failed = made.filter(({ status }) => status === 'rejected');
    assert.equal(failed.length, 1);
    assert.match(await hash('one more horse'), /^\$argon2id/);
  });
});

describe('a weak password', () => {
  const weak = {
    'one of 7 characters': 'aB3$xyz',
    'an empty one': '',
    'one of 257 characters': 'x9'.repeat(128) + 'y',
    'a huge one': 'x9'.repeat(500_000),
    'seven that look like more': '😀'.repeat(7),
    'the e-mail': email,
    'the e-mail in capitals': email.toUpperCase(),
    'a common one': 'password1',
    'a common one in capitals': 'P@SSW0RD',
    'a row of keys': '1q2w3e4r',
    digits: '123456789',
  };
  for (const [what, password] of Object.entries(weak)) {
    test(`is ${what}`, () => {
      assert.equal(isWeak(password, email), true);
    });
  }

  const strong = {
    '8 characters': 'aB3$xyz!',
    '256 characters': 'x9'.repeat(128),
    '256 characters outside the first plane': '😀'.repeat(256),
    'a phrase': 'a horse in a blue house',
    'an e-mail of somebody else': 'bob@example.com',
    'a common one and more': 'password1 and more',
  };
  for (const [what, password] of Object.entries(strong)) {
    test(`is not ${what}`, () => {
      assert.equal(isWeak(password, email), false);
    });
  }
});

describe('the list of common passwords', () => {
  test('has a thousand entries in lower case that no other rule refuses', () => {
    assert.equal(commonPasswords.size, 1000);
    for (const word of commonPasswords) {
      assert.equal(word, word.toLowerCase());
      assert.ok(word.length >= 8, word);
    }
  });
});
