import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { addressKey, createBuckets, networkKey } from '../../src/core/rate.ts';

const rule = { capacity: 3, perSecond: 2 };

describe('token bucket', () => {
  test('take: admits as many requests as the bucket has tokens, then rejects, then refills', () => {
    const buckets = createBuckets(rule, 10);
    assert.deepEqual(
      [0, 0, 0, 0, 499, 500, 500, 1500, 1500, 1500].map((at) => buckets.take('a', at).admitted),
      [true, true, true, false, false, true, false, true, true, false],
    );
  });

  test('take: returns remaining tokens, time until full and time until open', () => {
    const buckets = createBuckets(rule, 10);
    assert.deepEqual(buckets.take('a', 0), {
      admitted: true,
      limit: 3,
      remaining: 2,
      fullInMs: 500,
      openInMs: 0,
    });
    buckets.take('a', 0);
    assert.deepEqual(buckets.take('a', 0), {
      admitted: true,
      limit: 3,
      remaining: 0,
      fullInMs: 1500,
      openInMs: 500,
    });
    assert.equal(Math.round(buckets.take('a', 100).openInMs), 400);
  });

  test('take: a rejected request takes no token', () => {
    const buckets = createBuckets({ capacity: 1, perSecond: 1 }, 10);
    buckets.take('a', 0);
    for (let at = 0; at < 1000; at += 10) assert.equal(buckets.take('a', at).admitted, false);
    assert.equal(buckets.take('a', 1000).admitted, true);
  });

  test('take: each key has its own bucket', () => {
    const buckets = createBuckets({ capacity: 1, perSecond: 1 }, 10);
    assert.ok(buckets.take('a', 0).admitted);
    assert.ok(buckets.take('b', 0).admitted);
    assert.ok(!buckets.take('a', 0).admitted);
  });

  test('take: never admits more than size and refill, at any times', () => {
    const times = fc.array(fc.nat(2000), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 50 }),
        times,
        (c, p, t) => {
          const buckets = createBuckets({ capacity: c, perSecond: p }, 10);
          const instants = t.toSorted((one, other) => one - other);
          const admitted = instants.filter((at) => buckets.take('a', at).admitted).length;
          const spanMs = (instants.at(-1) ?? 0) - (instants[0] ?? 0);
          assert.ok(admitted <= c + (spanMs * p) / 1000 + 1e-6);
          assert.ok(admitted >= Math.min(t.length, c));
        },
      ),
    );
  });
});

describe('token bucket with overdraft', () => {
  test('overdraft: admits while anything is left, and the level may fall below zero', () => {
    const buckets = createBuckets({ capacity: 1000, perSecond: 1000, overdraft: true }, 10);
    assert.ok(buckets.take('t', 0).admitted);
    assert.equal(buckets.spend('t', 998, 0).remaining, 1);
    assert.ok(buckets.take('t', 0).admitted);
    assert.ok(!buckets.take('t', 0).admitted, 'nothing is left');
    assert.ok(buckets.take('t', 0.5).admitted, 'half a token is enough');
    const state = buckets.spend('t', 2000, 0.5);
    assert.equal(state.remaining, 0);
    assert.ok(!buckets.take('t', 2000).admitted);
    assert.ok(buckets.take('t', 2001.5).admitted);
  });
});

describe('token bucket with a refund', () => {
  test('spend: a negative number gives tokens back, up to the full bucket', () => {
    const buckets = createBuckets(rule, 10);
    buckets.take('a', 0);
    buckets.take('a', 0);
    assert.equal(Math.round(buckets.spend('a', -0.8, 0).fullInMs), 600);
    assert.equal(buckets.spend('a', -5, 0).fullInMs, 0);
    assert.equal(buckets.take('a', 0).remaining, 2, 'no more than a full one');
  });
});

describe('number of buckets', () => {
  test('createBuckets: the number is bounded, and the fullest are dropped first', () => {
    const buckets = createBuckets({ capacity: 10, perSecond: 0.001 }, 1000);
    for (let i = 0; i < 10; i++) buckets.take('greedy', 0);
    for (let i = 0; i < 50_000; i++) {
      buckets.take(`k${i}`, 0);
      assert.ok(buckets.size() <= 1000);
    }
    assert.ok(!buckets.take('greedy', 0).admitted, 'the emptiest bucket is still stored');
  });

  test('createBuckets: full buckets are dropped before any other', () => {
    const buckets = createBuckets({ capacity: 10, perSecond: 10 }, 100);
    for (let i = 0; i < 90; i++) buckets.take(`old${i}`, 0);
    for (let i = 0; i < 10; i++) buckets.take(`new${i}`, 1000);
    buckets.take('one more', 1000);
    assert.equal(buckets.size(), 11);
  });
});

describe('addressKey', () => {
  const ipv4: [address: string, key: string][] = [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['::ffff:102:304', '1.2.3.4'],
    ['::FFFF:C000:207', '192.0.2.7'],
    ['::ffff:0:0', '0.0.0.0'],
    ['0:0:0:0:0:ffff:c000:0207', '192.0.2.7'],
    ['0000:0000:0000:0000:0000:ffff:192.0.2.7', '192.0.2.7'],
    ['::ffff:c000:207%eth0', '192.0.2.7'],
    // Not mapped (RFC 4291 section 2.5.5.2).
    ['::102:304', '0:0:0:0::/64'],
    ['::1.2.3.4', '0:0:0:0::/64'],
    ['::ffff:0:102:304', '0:0:0:0::/64'],
    ['64:ff9b::102:304', '64:ff9b:0:0::/64'],
  ];
  for (const [address, key] of ipv4) {
    test(`addressKey: ${address} has the key ${key}`, () => assert.equal(addressKey(address), key));
  }

  test('addressKey: IPv6 addresses of one /64 have one key, in any notation', () => {
    const one = addressKey('2001:db8:1:2::1');
    assert.equal(one, '2001:db8:1:2::/64');
    for (const same of [
      '2001:DB8:1:2:ffff:ffff:ffff:ffff',
      '2001:0db8:0001:0002:0000:0000:0000:0001',
      '2001:db8:1:2:3:4:5.6.7.8',
      '2001:db8:1:2::1%eth0',
    ]) {
      assert.equal(addressKey(same), one, same);
    }
    assert.notEqual(addressKey('2001:db8:1:3::1'), one);
    assert.equal(addressKey('::1'), '0:0:0:0::/64');
    assert.equal(addressKey('fe80::'), 'fe80:0:0:0::/64');
  });
});

describe('networkKey', () => {
  test('networkKey: the /24 of an IPv4 address and the /48 of an IPv6 address, in any notation', () => {
    assert.equal(networkKey('192.0.2.7'), networkKey('::ffff:192.0.2.200'));
    assert.notEqual(networkKey('192.0.2.7'), networkKey('192.0.3.7'));
    assert.equal(networkKey('2001:db8::1'), networkKey('2001:0DB8:0:ffff::2'));
    assert.notEqual(networkKey('2001:db8::1'), networkKey('2001:db8:1::1'));
    assert.notEqual(networkKey('::1'), networkKey('2001:db8::1'));
  });
});
