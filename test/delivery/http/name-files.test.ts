import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  candidatesOf,
  parseHosts,
  parseSearchRules,
} from '../../../src/delivery/http/name-files.ts';

describe('a hosts file', () => {
  test('gives addresses to names and aliases, whatever their case', () => {
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

  test('gives a name on several lines all of its addresses, each once', () => {
    const hosts = parseHosts('10.0.0.1 a\n10.0.0.2 a a.\n10.0.0.1 a');
    assert.deepEqual(hosts.get('a'), ['10.0.0.1', '10.0.0.2']);
  });

  test('has no entry for comments, blank lines, and lines without an address', () => {
    assert.equal(
      parseHosts('# 10.0.0.1 a\n\n  \nlocalhost 127.0.0.1\n10.0.0.300 b\n10.0.0.1').size,
      0,
    );
  });

  test('is read whatever it contains', () => {
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
    test(`${JSON.stringify(text)} has its domains and dots`, () => {
      assert.deepEqual(parseSearchRules(text), { domains, ndots });
    });
  }

  test('is read whatever it contains', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseSearchRules(text)));
  });
});

describe('the names to ask for', () => {
  const rules = { domains: ['a.example', 'b.example'], ndots: 2 };

  test('begin with the search domains for a name with few dots', () => {
    const expected = ['x.y.a.example', 'x.y.b.example', 'x.y'];
    assert.deepEqual(candidatesOf('x.y', rules), expected);
  });

  test('begin with the name itself where it has enough dots', () => {
    const expected = ['x.y.z', 'x.y.z.a.example', 'x.y.z.b.example'];
    assert.deepEqual(candidatesOf('x.y.z', rules), expected);
  });

  test('are the name alone where it ends with a dot, or there are no domains', () => {
    assert.deepEqual(candidatesOf('x.', rules), ['x']);
    assert.deepEqual(candidatesOf('x', { domains: [], ndots: 1 }), ['x']);
  });
});
