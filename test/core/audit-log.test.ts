import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  formatAuditKey,
  parseAuditKey,
  shownAddress,
  shownUserAgent,
} from '../../src/core/audit-log.ts';

describe('shownUserAgent', () => {
  test('shownUserAgent: keeps what programs and browsers send', () => {
    const agents = [
      'curl/8.1.2',
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0',
      'auth0-node/7.1.0 (Node.js 26.0.0; linux/x64)',
      'Terraform/1.9.0 (+https://www.terraform.io) terraform-provider/1.2',
    ];
    for (const agent of agents) assert.equal(shownUserAgent(agent), agent);
    assert.equal(shownUserAgent(undefined), undefined);
    assert.equal(shownUserAgent(''), undefined);
  });

  test('shownUserAgent: replaces what is as long as a secret', () => {
    const secret = 'a1B2_c3D4-e5F6g7H8i9J0k1L2';
    assert.equal(shownUserAgent(`robot ${secret}`), 'robot ***');
    assert.equal(shownUserAgent(`Bearer ${secret}.${secret}.${secret}`), 'Bearer ***.***.***');
    assert.equal(shownUserAgent(`whsec_${secret}==`), '***');
    const key = 'whsec_Zk3o/9aLq0Xc7VtR1bYpW5sD/uH8eJ2fG6mN4iKxQ=';
    assert.equal(shownUserAgent(`robot/1.0 ${key}`), 'robot/1.0 ***');
  });

  test('shownUserAgent: has at most 256 characters, and no beginning of a secret at their end', () => {
    const words = 'word '.repeat(1000);
    assert.equal(shownUserAgent(words), words.slice(0, 256));
    const late = `${'a b '.repeat(62)}${'s'.repeat(43)}`;
    assert.equal(shownUserAgent(late), `${'a b '.repeat(62)}***`);
    assert.ok(shownUserAgent(`${'a b '.repeat(63)}\uD83E\uDD8A\uD83E\uDD8A\uD83E`)?.isWellFormed());
  });
});

describe('shownAddress', () => {
  test('shownAddress: an address without zone, an IPv4 one without its mapping', () => {
    assert.equal(shownAddress('192.0.2.1'), '192.0.2.1');
    assert.equal(shownAddress('::FFFF:192.0.2.1'), '192.0.2.1');
    assert.equal(shownAddress('2001:db8::1'), '2001:db8::1');
    assert.equal(shownAddress('fe80::1%a-secret'), 'fe80::1');
  });

  test('shownAddress: nothing for any other text', () => {
    for (const text of ['', 'unknown', '1.2.3', 'secret', '1.2.3.4%x', '::1%a%b']) {
      assert.equal(shownAddress(text), undefined, text);
    }
  });
});

describe('the position in the audit log', () => {
  test('parseAuditKey: parses what formatAuditKey writes, and nothing else', () => {
    const key = { at: 1_772_357_400_000, id: 'log_5xJq2Vn8kYdW3tRbHs7McA' };
    assert.deepEqual(parseAuditKey(formatAuditKey(key)), key);
    const others = ['', '.', '1.log_x', '-1.log_5xJq2Vn8kYdW3tRbHs7McA', `${formatAuditKey(key)}.`];
    for (const text of others) assert.equal(parseAuditKey(text), undefined, text);
  });
});
