import assert from 'node:assert/strict';
import { argon2Sync, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { commonPasswords } from '../../src/auth/common-passwords.ts';
import { createPasswordHasher, isWeak } from '../../src/auth/passwords.ts';
import { random } from './fixture.ts';

const email = 'ada@example.com';

/** Hashes a password again with the salt and the costs that a PHC string names. */
function rehash(password: string, phc: string): string {
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

describe('password hash', () => {
  test('password hash: argon2id in PHC form; another password has another hash', async () => {
    const phc = await createPasswordHasher({ random })('correct horse 9');
    assert.match(phc, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    assert.equal(rehash('correct horse 9', phc), phc);
    assert.notEqual(rehash('correct horse 8', phc), phc);
  });

  test('password hash: each hash has its own salt', async () => {
    const hash = createPasswordHasher({ random });
    assert.notEqual(await hash('correct horse 9'), await hash('correct horse 9'));
  });

  test('password hash: composed and decomposed characters are equal', async () => {
    const hash = createPasswordHasher({ random: (count) => new Uint8Array(count) });
    assert.equal(await hash('caf\u00e9 au lait'), await hash('cafe\u0301 au lait'));
  });

  test('password hash: accepts any characters', async () => {
    const password = '😀\u0000пароль';
    const phc = await createPasswordHasher({ random })(password);
    assert.equal(rehash(password, phc), phc);
  });

  test('password hash: a failed call does not affect concurrent and later ones', async () => {
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

describe('isWeak', () => {
  const weak = {
    '7 characters': 'aB3$xyz',
    'an empty password': '',
    '257 characters': 'x9'.repeat(128) + 'y',
    'a huge password': 'x9'.repeat(500_000),
    '7 characters of 14 UTF-16 units': '😀'.repeat(7),
    'the e-mail': email,
    'the e-mail in capitals': email.toUpperCase(),
    'a common password': 'password1',
    'a common password in capitals': 'P@SSW0RD',
    'a row of keys': '1q2w3e4r',
    digits: '123456789',
  };
  for (const [what, password] of Object.entries(weak)) {
    test(`isWeak: true for ${what}`, () => {
      assert.equal(isWeak(password, email), true);
    });
  }

  const strong = {
    '8 characters': 'aB3$xyz!',
    '256 characters': 'x9'.repeat(128),
    '256 characters outside the first plane': '😀'.repeat(256),
    'a phrase': 'a horse in a blue fixture',
    'an e-mail of somebody else': 'bob@example.com',
    'a common password with more after it': 'password1 and more',
  };
  for (const [what, password] of Object.entries(strong)) {
    test(`isWeak: false for ${what}`, () => {
      assert.equal(isWeak(password, email), false);
    });
  }
});

describe('common passwords', () => {
  test('common passwords: a thousand in lower case, none rejected by another rule', () => {
    assert.equal(commonPasswords.size, 1000);
    for (const word of commonPasswords) {
      assert.equal(word, word.toLowerCase());
      assert.ok(word.length >= 8, word);
    }
  });
});
