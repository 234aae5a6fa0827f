import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  candidatesOf,
  parseHosts,
  parseSearchRules,
} from '../../../src/delivery/http/name-files.ts';

describe('a hosts file', () => {
  test('a hosts file has addresses of names and aliases in any case', () => {
    const hosts = parseHosts('10.0.0.1\tDB.Internal db # the database\r\n::1 ip6-localhost\n');
    assert.deepEqual(
      [...hosts],
      [
        ['db.internal', ['10.0.0.1']],
        ['db', ['10.0.0.1']],
        ['ip6-localhost', ['::1']],
      ],
    );
  });

  test('a name on several lines of a hosts file has all of their addresses, each once', () => {
    const hosts = parseHosts('10.0.0.1 a\n10.0.0.2 a a.\n10.0.0.1 a');
    assert.deepEqual(hosts.get('a'), ['10.0.0.1', '10.0.0.2']);
  });

  test('comments, blank lines and lines without an address are no entries', () => {
    assert.equal(
      parseHosts('# 10.0.0.1 a\n\n  \nlocalhost 127.0.0.1\n10.0.0.300 b\n10.0.0.1').size,
      0,
    );
  });

  test('any text can be parsed', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseHosts(text)));
  });
});

describe('resolv.conf', () => {
  const texts: readonly (readonly [string, readonly string[], number])[] = [
    ['', [], 1],
    ['nameserver 10.0.0.53\nsearch a.example B.example.\n', ['a.example', 'b.example'], 1],
    ['search a.example\nsearch b.example', ['b.example'], 1],
    ['search a.example b.example\ndomain c.example d.example', ['c.example'], 1],
    ['  search\ta.example # office\n; search b.example', ['a.example'], 1],
    ['search .', [], 1],
    ['options ndots:5 timeout:1\noptions edns0', [], 5],
    ['options ndots:99999999999', [], 1],
    ['options ndots:400', [], 15],
    ['options ndots:2 ndots:3', [], 3],
    ['options ndots:-1 ndots:x', [], 1],
  ];
  for (const [text, domains, ndots] of texts) {
    test(`parseSearchRules: ${JSON.stringify(text)}`, () => {
      assert.deepEqual(parseSearchRules(text), { domains, ndots });
    });
  }

  test('any text can be parsed', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseSearchRules(text)));
  });
});

describe('candidatesOf', () => {
  const rules = { domains: ['a.example', 'b.example'], ndots: 2 };

  test('a name with few dots is tried with the search domains first', () => {
    const expected = ['x.y.a.example', 'x.y.b.example', 'x.y'];
    assert.deepEqual(candidatesOf('x.y', rules), expected);
  });

  test('a name with enough dots is tried itself first', () => {
    const expected = ['x.y.z', 'x.y.z.a.example', 'x.y.z.b.example'];
    assert.deepEqual(candidatesOf('x.y.z', rules), expected);
  });

  test('a name with a trailing dot, or without search domains, is tried alone', () => {
    assert.deepEqual(candidatesOf('x.', rules), ['x']);
    assert.deepEqual(candidatesOf('x', { domains: [], ndots: 1 }), ['x']);
  });
});
