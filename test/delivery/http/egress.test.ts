import assert from 'node:assert/strict';
import type { LookupFunction } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { limits } from '../../../src/config.ts';
import { isPublicAddress } from '../../../src/core/address.ts';
import type { AttemptResult } from '../../../src/core/retry.ts';
import { createEgressRule, guardLookup } from '../../../src/delivery/http/egress.ts';
import { startDns, type DnsServer, type Zone } from '../../helpers/dns.ts';
import { rawThenEnd, receiverOf } from '../../helpers/receiver.ts';
import { advanceUntil, createSender, timeoutMs } from '../../helpers/sender.ts';

async function dnsOf(t: TestContext, zone: Zone): Promise<DnsServer> {
  const dns = await startDns(zone);
  t.after(() => dns.close());
  return dns;
}

const delivered: AttemptResult = { kind: 'response', status: 204, text: '', retryAfter: undefined };

function blockedAt(address: string): AttemptResult {
  const detail = `${address} (LEAT_EGRESS_ALLOW)`;
  return { kind: 'error', cause: 'blocked address', detail };
}
const blockedName = blockedAt('no allowed address');

describe('the egress rule', () => {
  test('addresses that are not public are blocked and named', () => {
    const { blocked } = createEgressRule({ allow: [] });
    assert.equal(blocked('8.8.8.8'), undefined);
    assert.equal(blocked('2606:4700::1111'), undefined);
    assert.equal(blocked('127.0.0.1'), '127.0.0.1');
    assert.equal(blocked('::ffff:10.0.0.1'), '::ffff:10.0.0.1');
    assert.equal(blocked('fd00:ec2::254'), 'fd00:ec2::254');
  });

  test('a text that is no address is blocked and not repeated', () => {
    const { blocked } = createEgressRule({ allow: ['0.0.0.0/0', '::/0'] });
    for (const text of ['', 'localhost', '127.1', '<script>', '127.0.0.1\n8.8.8.8']) {
      assert.equal(blocked(text), 'not an address');
    }
  });

  test('addresses that the operator allows are not blocked, in any notation', () => {
    const { blocked } = createEgressRule({ allow: ['10.20.0.0/16', '127.0.0.1', 'fd00:1::/32'] });
    for (const address of ['10.20.255.1', '::ffff:10.20.0.1', '64:ff9b::a14:1', '127.0.0.1']) {
      assert.equal(blocked(address), undefined, address);
    }
    assert.equal(blocked('fd00:1::2'), undefined);
    for (const address of ['10.21.0.1', '127.0.0.2', 'fd00:2::1', '::1']) {
      assert.equal(blocked(address), address);
    }
  });

  test('public addresses that the operator denies are blocked, in any notation, unless they are allowed', () => {
    const deny = ['2600:1f18::/32', '9.9.9.0/24', '8.8.8.8'];
    const { blocked } = createEgressRule({ allow: ['2600:1f18:1::7'], deny });
    for (const address of ['8.8.8.8', '::ffff:8.8.8.8', '64:ff9b::808:808', '2002:808:808::1']) {
      assert.equal(blocked(address), address);
    }
    assert.equal(blocked('9.9.9.9'), '9.9.9.9');
    assert.equal(blocked('2600:1f18:1::8'), '2600:1f18:1::8');
    for (const address of ['8.8.4.4', '9.9.8.9', '2600:1f18:1::7', '2600:1f19::1']) {
      assert.equal(blocked(address), undefined, address);
    }
  });

  for (const text of ['', '10.0.0.0/33', 'localhost', '10/8', '::/129']) {
    test(`createEgressRule rejects ${JSON.stringify(text)}`, () => {
      assert.throws(() => createEgressRule({ allow: ['10.0.0.0/8', text] }), TypeError);
    });
  }
});

describe('a webhook at a literal address', () => {
  const hosts: readonly (readonly [host: string, shown: string])[] = [
    ['127.0.0.1', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['2130706433', '127.0.0.1'],
    ['0x7f000001', '127.0.0.1'],
    ['0x7f.0.0.1', '127.0.0.1'],
    ['017700000001', '127.0.0.1'],
    ['0177.0.0.1', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['%31%32%37.0.0.1', '127.0.0.1'],
    ['127.255.255.254', '127.255.255.254'],
    ['0', '0.0.0.0'],
    ['[::]', '::'],
    ['[::1]', '::1'],
    ['[::ffff:127.0.0.1]', '::ffff:7f00:1'],
    ['[::ffff:7f00:1]', '::ffff:7f00:1'],
    ['[::127.0.0.1]', '::7f00:1'],
    ['[64:ff9b::127.0.0.1]', '64:ff9b::7f00:1'],
    ['[64:ff9b:1::127.0.0.1]', '64:ff9b:1::7f00:1'],
    ['[2002:7f00:1::]', '2002:7f00:1::'],
    ['[2001:0:7f00:1::]', '2001:0:7f00:1::'],
    ['[fe80::1]', 'fe80::1'],
    ['[fd00:ec2::254]', 'fd00:ec2::254'],
    ['10.0.0.1', '10.0.0.1'],
    ['172.16.0.1', '172.16.0.1'],
    ['192.168.1.1', '192.168.1.1'],
    ['169.254.169.254', '169.254.169.254'],
    ['100.100.100.200', '100.100.100.200'],
    ['168.63.129.16', '168.63.129.16'],
    ['224.0.0.1', '224.0.0.1'],
    ['255.255.255.255', '255.255.255.255'],
  ];
  for (const [host, shown] of hosts) {
    test(`${host} is not called`, async (t) => {
      const receiver = await receiverOf(t);
      const { send, transport } = createSender(t, { allow: [] });
      const origin = `http://${host}:${receiver.port}`;
      assert.deepEqual(await send(new URL(origin).origin), blockedAt(shown));
      // Also when it was not normalized before.
      assert.deepEqual(await send(origin), blockedAt(shown));
      assert.deepEqual(await send(origin.replace('http:', 'https:')), blockedAt(shown));
      assert.equal(receiver.connections, 0);
      assert.equal(transport.count().connections, 0);
    });
  }

  test('a literal address that the operator allows is called', async (t) => {
    const receiver = await receiverOf(t);
    const { send } = createSender(t, { allow: ['127.0.0.1'] });
    assert.deepEqual(await send(receiver.origin), delivered);
    assert.deepEqual(await send(`http://[::ffff:127.0.0.1]:${receiver.port}`), delivered);
    const other = `http://127.0.0.2:${receiver.port}`;
    assert.deepEqual(await send(other), blockedAt('127.0.0.2'));
  });
});

describe('a webhook at a name', () => {
  const names: readonly (readonly [name: string, addresses: readonly string[], shown: string])[] = [
    ['loopback', ['127.0.0.1'], '127.0.0.1'],
    ['loopback6', ['::1'], '::1'],
    ['mapped', ['::ffff:127.0.0.1'], '::ffff:127.0.0.1'],
    ['nat64', ['64:ff9b::a9fe:a9fe'], '64:ff9b::a9fe:a9fe'],
    ['sixtofour', ['2002:a00:1::'], '2002:a00:1::'],
    ['metadata', ['169.254.169.254'], '169.254.169.254'],
    ['private', ['10.0.0.1', '192.168.0.1', 'fd00::1'], '10.0.0.1'],
    ['everything', ['0.0.0.0'], '0.0.0.0'],
  ];
  for (const [name, addresses, shown] of names) {
    test(`a name with the addresses ${addresses.join(', ')} is not called`, async (t) => {
      const receiver = await receiverOf(t);
      const { servers } = await dnsOf(t, () => addresses);
      const found: string[][] = [];
      const blockedFound = (...each: string[]): void => void found.push(each);
      const { send, transport } = createSender(t, { allow: [], servers, blockedFound });
      for (const scheme of ['http', 'https']) {
        const result = await send(`${scheme}://${name}.example:${receiver.port}`);
        assert.deepEqual(result, blockedName, 'without the address, which is the operator’s');
      }
      const one = [`${name}.example`, shown];
      assert.deepEqual(found, [one, one]);
      assert.equal(receiver.connections, 0);
      assert.equal(transport.count().connections, 0);
    });
  }

  test('a name is called only at its allowed addresses', async (t) => {
    const blocked = await receiverOf(t, { host: '127.0.0.2' });
    // Other programs listen at 127.0.0.1, and may have this very port there.
    const { servers } = await dnsOf(t, () => ['127.0.0.2', '127.0.0.3', '::1']);
    const { send } = createSender(t, { allow: ['127.0.0.3'], servers });
    const origin = `http://mixed.example:${blocked.port}`;
    // Nothing listens at the allowed address; the blocked one is not tried all the same.
    const refused: AttemptResult = { kind: 'error', cause: 'refused', detail: 'ECONNREFUSED' };
    assert.deepEqual(await send(origin), refused);
    const allowed = await receiverOf(t, { host: '127.0.0.3', port: blocked.port });
    assert.deepEqual(await send(origin), delivered);
    assert.equal(allowed.requests[0]?.headers['host'], `mixed.example:${blocked.port}`);
    assert.equal(blocked.connections, 0);
  });

  test('a name that changes between the check and the connection has no effect', async (t) => {
    const inside = await receiverOf(t, { host: '127.0.0.2' });
    const closing = 'HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n';
    const outside = await receiverOf(t, { port: inside.port, respond: rawThenEnd(closing) });
    // Each query has another result than the one before.
    const { servers, questions } = await dnsOf(t, (_name, asked) => [
      asked % 2 === 1 ? '127.0.0.1' : '127.0.0.2',
    ]);
    const { send, clock } = createSender(t, { allow: ['127.0.0.1'], servers });
    const origin = `http://rebinding.example:${inside.port}`;
    for (let round = 1; round <= 5; round++) {
      assert.deepEqual(await send(origin), delivered);
      assert.equal(outside.requests.length, round);
      await clock.advance(limits.names.usableMs);
      assert.deepEqual(await send(origin), blockedName);
      await clock.advance(limits.names.usableMs);
    }
    assert.equal(inside.connections, 0);
    // One query for each connection: the address that was checked is the one that is used.
    assert.equal(questions.filter((question) => question.endsWith(' A')).length, 10);
  });

  test('concurrent attempts share one lookup of a name', async (t) => {
    const receiver = await receiverOf(t, { respond: rawThenEnd(`HTTP/1.1 204 X\r\n\r\n`) });
    const { servers, questions } = await dnsOf(t, () => ['127.0.0.1']);
    const { send } = createSender(t, { servers });
    const origin = `http://busy.example:${receiver.port}`;
    await Promise.all(Array.from({ length: 20 }, () => send(origin)));
    assert.deepEqual(questions.toSorted(), ['busy.example A', 'busy.example AAAA']);
    assert.equal(receiver.connections, 20);
  });

  const unknown: readonly (readonly [answer: ReturnType<Zone>, detail: string])[] = [
    ['no such name', 'ENOTFOUND'],
    ['failure', 'ESERVFAIL'],
    [[], 'ENODATA'],
  ];
  for (const [answer, detail] of unknown) {
    test(`a name without an address (${detail}) is an error of DNS`, async (t) => {
      const { servers } = await dnsOf(t, (name) => (name === 'example' ? [] : answer));
      const { send } = createSender(t, { servers });
      const result = await send('http://unknown.example');
      assert.deepEqual(result, { kind: 'error', cause: 'dns', detail });
    });
  }

  test('a name without a response of a name server is an error of DNS before the attempt times out', async (t) => {
    const { servers } = await dnsOf(t, (name) => (name === 'example' ? [] : 'silence'));
    const { post, clock } = createSender(t, { servers });
    const slow = post('http://silent.example');
    await advanceUntil(clock, slow.ended);
    assert.deepEqual(await slow.ended, { kind: 'error', cause: 'dns', detail: 'ETIMEOUT' });
    assert.ok(clock.elapsedMs() < timeoutMs);
  });

  test('a name server of this machine that cannot be reached is no error of the receiver', async (t) => {
    const { servers, close } = await startDns(() => []);
    await close();
    const result = await createSender(t, { servers }).post('http://unreachable.example').ended;
    assert.deepEqual(result, { kind: 'shortage', code: 'ENAMESERVER' });
  });
});

describe('a connection', () => {
  test('a connection to another address than the checked one sends nothing', async (t) => {
    const receiver = await receiverOf(t);
    // Allows every address until a connection is made.
    let checks = 0;
    const egress = { blocked: (address: string) => (++checks > 1 ? address : undefined) };
    const found: string[][] = [];
    const blockedFound = (...each: string[]): void => void found.push(each);
    const { send } = createSender(t, { egress, blockedFound });
    assert.deepEqual(await send(receiver.origin), blockedAt('127.0.0.1'));
    checks = 0;
    assert.deepEqual(await send(`http://localhost:${receiver.port}`), blockedName);
    assert.deepEqual(found, [['localhost', '127.0.0.1']]);
    assert.equal(receiver.requests.length, 0);
  });

  test('an open connection is used again after its name has changed', async (t) => {
    const receiver = await receiverOf(t);
    const zone: Zone = (_name, asked) => [asked === 1 ? '127.0.0.1' : '10.0.0.1'];
    const { servers } = await dnsOf(t, zone);
    const { send } = createSender(t, { allow: ['127.0.0.1'], servers });
    for (let round = 0; round < 3; round++) {
      assert.deepEqual(await send(`http://kept.example:${receiver.port}`), delivered);
    }
    assert.equal(receiver.connections, 1);
  });
});

describe('the guarded lookup', () => {
  const address = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string());

  test('the guarded lookup yields only allowed addresses', () => {
    fc.assert(
      fc.property(fc.array(address), fc.boolean(), (addresses, all) => {
        const egress = createEgressRule({ allow: [] });
        const lookup: LookupFunction = (_name, _options, callback) => {
          if (all)
            callback(
              null,
              addresses.map((each) => ({ address: each, family: 4 })),
            );
          else callback(null, addresses[0] ?? '', 4);
        };
        guardLookup(lookup, egress)('a.example', { all }, (error, found) => {
          const yielded = typeof found === 'string' ? [found] : found.map((each) => each.address);
          assert.ok(yielded.every(isPublicAddress));
          const candidates = all ? addresses : addresses.slice(0, 1);
          assert.deepEqual(yielded, candidates.filter(isPublicAddress));
          assert.equal(error === null, yielded.length > 0);
        });
      }),
    );
  });
});
