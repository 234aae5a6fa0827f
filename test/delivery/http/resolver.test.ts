import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { limits } from '../../../src/config.ts';
import { createResolver, type Resolver } from '../../../src/delivery/http/resolver.ts';
import { createManualClock, type ManualClock } from '../../helpers/clock.ts';
import { type DnsAnswer, type DnsServer, startDns, type Zone } from '../../helpers/dns.ts';
import { waitFor } from '../../helpers/wait.ts';

/** The resolver of production over real sockets, with a clock that only the test moves. */
interface Fixture {
  readonly resolver: Resolver;
  readonly clock: ManualClock;
  readonly dns: DnsServer;
  readonly folder: string;
  resolve(name: string): Promise<readonly string[]>;
  /** The code that a name fails with. */
  failure(name: string): Promise<unknown>;
}

interface Options {
  readonly hosts?: string;
  readonly resolvConf?: string;
  /** Name servers that are queried before or after the one of the zone. */
  readonly before?: readonly string[];
  readonly after?: readonly string[];
}

async function createFixture(t: TestContext, zone: Zone, options: Options = {}): Promise<Fixture> {
  const { hosts = '', resolvConf = '', before = [], after = [] } = options;
  const folder = await mkdtemp(join(tmpdir(), 'leat-names-'));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'hosts'), hosts);
  await writeFile(join(folder, 'resolv.conf'), resolvConf);
  const dns = await startDns(zone);
  t.after(() => dns.close());
  const clock = createManualClock();
  const resolver = createResolver({
    clock,
    ...limits.resolver,
    servers: [...before, ...dns.servers, ...after],
    hostsFile: join(folder, 'hosts'),
    resolvConf: join(folder, 'resolv.conf'),
  });
  t.after(() => resolver.close());
  return {
    resolver,
    clock,
    dns,
    folder,
    resolve: (name) => resolver.resolve(name, timeoutMs),
    failure: (name) =>
      resolver.resolve(name, timeoutMs).then(
        (addresses) => assert.fail(`${name} is at ${addresses.join(', ')}`),
        (error: unknown) => Object(error)['code'],
      ),
  };
}

async function addressOf(t: TestContext, zone: Zone): Promise<string> {
  const dns = await startDns(zone);
  t.after(() => dns.close());
  return dns.servers[0] ?? '';
}

/** Moves the clock until the name servers have received so many queries. */
async function queriesReach({ clock, dns }: Fixture, questions: number): Promise<void> {
  await waitFor(`${questions} questions`, () => dns.questions.length >= questions, {
    progress: () => dns.questions.length,
  });
  await clock.advance(0);
}

const { timeoutMs } = limits.names;

const nothing: Zone = () => 'no such name';

describe('without a name server', () => {
  test('an address resolves to itself', async (t) => {
    const { resolve, dns } = await createFixture(t, nothing);
    for (const address of ['192.0.2.1', '::1', '2001:db8::1']) {
      assert.deepEqual(await resolve(address), [address]);
    }
    assert.equal(dns.questions.length, 0);
  });

  test('the hosts file is honoured, also when it has changed', async (t) => {
    const hosts = '192.0.2.7 Receiver.internal receiver\n192.0.2.8 receiver\n';
    const { resolve, failure, dns, clock, folder } = await createFixture(t, nothing, { hosts });
    assert.deepEqual(await resolve('receiver.INTERNAL'), ['192.0.2.7']);
    assert.deepEqual(await resolve('receiver'), ['192.0.2.7', '192.0.2.8']);
    assert.deepEqual(await resolve('receiver.'), ['192.0.2.7', '192.0.2.8']);
    assert.equal(dns.questions.length, 0);
    // Replaced by a rename, as most programs write files.
    await writeFile(join(folder, 'new'), '192.0.2.9 receiver');
    await rename(join(folder, 'new'), join(folder, 'hosts'));
    await clock.advance(1000);
    assert.deepEqual(await resolve('receiver'), ['192.0.2.9']);
    assert.equal(await failure('receiver.internal'), 'ENOTFOUND');
    await rm(join(folder, 'hosts'));
    await clock.advance(1000);
    assert.equal(await failure('receiver'), 'ENOTFOUND');
  });

  test('localhost and the names below it are loopback unless the hosts file has other addresses', async (t) => {
    const hosts = '192.0.2.7 app.localhost';
    const { resolve, dns } = await createFixture(t, () => ['192.0.2.66'], { hosts });
    for (const name of ['localhost', 'LocalHost.', 'a.b.localhost']) {
      assert.deepEqual(await resolve(name), ['127.0.0.1', '::1'], name);
    }
    assert.deepEqual(await resolve('app.localhost'), ['192.0.2.7']);
    assert.equal(dns.questions.length, 0);
  });
});

describe('a name', () => {
  const zone: Zone = (name) => {
    const zones: Record<string, readonly string[]> = {
      'four.test': ['192.0.2.1', '192.0.2.2'],
      'six.test': ['2001:db8::1'],
      'both.test': ['2001:db8::1', '192.0.2.1'],
      'many.test': Array.from({ length: 200 }, (_, n) => `192.0.2.${n}`),
      'empty.test': [],
      'inner.corp.test': ['192.0.2.3'],
    };
    return zones[name] ?? 'no such name';
  };

  test('a name has addresses of one family or of both, IPv4 first', async (t) => {
    const { resolve } = await createFixture(t, zone);
    assert.deepEqual(await resolve('four.test'), ['192.0.2.1', '192.0.2.2']);
    assert.deepEqual(await resolve('six.test'), ['2001:db8::1']);
    assert.deepEqual(await resolve('both.test'), ['192.0.2.1', '2001:db8::1']);
  });

  test('a name has no more addresses than the limit, also when its response needs TCP', async (t) => {
    const { resolve, dns } = await createFixture(t, zone);
    assert.equal((await resolve('many.test')).length, limits.resolver.addressesMax);
    assert.deepEqual(dns.tcpQuestions, ['many.test A']);
  });

  test('a name without addresses and one that does not exist fail with different codes', async (t) => {
    const { failure } = await createFixture(t, zone);
    assert.equal(await failure('empty.test'), 'ENODATA');
    assert.equal(await failure('none.test'), 'ENOTFOUND');
  });

  test('a name that cannot be queried does not exist', async (t) => {
    const { failure } = await createFixture(t, zone);
    for (const name of ['', '.', 'a..b', `${'a'.repeat(64)}.test`, 'a.'.repeat(200)]) {
      assert.equal(await failure(name), 'ENOTFOUND', JSON.stringify(name));
    }
  });

  test('a name is searched for in the domains of resolv.conf, also after a change', async (t) => {
    const resolvConf = 'search other.test corp.test\n';
    const { resolve, failure, dns, clock, folder } = await createFixture(t, zone, { resolvConf });
    assert.deepEqual(await resolve('inner'), ['192.0.2.3']);
    const four = dns.questions.filter((question) => question.endsWith(' A'));
    assert.deepEqual(four, ['inner.other.test A', 'inner.corp.test A']);
    assert.equal(await failure('inner.'), 'ENOTFOUND');
    await writeFile(join(folder, 'resolv.conf'), 'search test\noptions ndots:3\n');
    await clock.advance(1000);
    assert.deepEqual(await resolve('inner.corp'), ['192.0.2.3']);
    assert.equal(await failure('inner'), 'ENOTFOUND');
  });
});

describe('name servers', () => {
  test('silent name servers end a lookup in its time', async (t) => {
    const fixture = await createFixture(t, () => 'silence');
    const failure = fixture.failure('a.test');
    await queriesReach(fixture, 2);
    await fixture.clock.advance(timeoutMs);
    await queriesReach(fixture, 10);
    // Then it asks about the domain above.
    await fixture.clock.advance(2000);
    assert.equal(await failure, 'ENAMESERVER');
    assert.equal(fixture.clock.pending, 0);
  });

  test('a name server that is silent about one name alone is available', async (t) => {
    for (const above of [[], 'no such name'] as const) {
      const fixture = await createFixture(t, (name) => (name === 'test' ? above : 'silence'));
      const failure = fixture.failure('a.test');
      await queriesReach(fixture, 2);
      await fixture.clock.advance(timeoutMs);
      // Both families four times, the domain above, and the name again.
      await queriesReach(fixture, 12);
      await fixture.clock.advance(timeoutMs);
      assert.equal(await failure, 'ETIMEOUT');
    }
  });

  test('a name server that comes back is asked again about a name for which it was away', async (t) => {
    for (const away of ['silence', 'failure'] as const) {
      const back = new Set<string>();
      const fixture = await createFixture(t, (name) => {
        if (name === 'test') back.add('a.test').add('test');
        return back.has(name) ? ['192.0.2.7'] : away;
      });
      const address = fixture.resolve('a.test');
      await queriesReach(fixture, 2);
      await fixture.clock.advance(timeoutMs);
      assert.deepEqual(await address, ['192.0.2.7']);
    }
  });

  test('a name server that answers another name while it comes back is asked again', async (t) => {
    let isBack = false;
    const fixture = await createFixture(t, () => (isBack ? ['192.0.2.7'] : 'silence'));
    const address = fixture.resolve('a.test');
    await queriesReach(fixture, 2);
    // All its queries are lost.
    await fixture.clock.advance(timeoutMs - 1);
    isBack = true;
    assert.deepEqual(await fixture.resolve('b.test'), ['192.0.2.7']);
    await fixture.clock.advance(1);
    assert.deepEqual(await address, ['192.0.2.7']);
  });

  test('a name server that fails for one name alone is available', async (t) => {
    const { failure } = await createFixture(t, (name) => (name === 'test' ? [] : 'failure'));
    assert.equal(await failure('a.test'), 'ESERVFAIL');
  });

  test('name servers that are silent for one family do not delay the other one', async (t) => {
    for (const family of [4, 6]) {
      const address = family === 4 ? '192.0.2.1' : '2001:db8::1';
      const fixture = await createFixture(t, (_name, _asked, of) =>
        of === family ? [address] : 'silence',
      );
      const found = fixture.resolve('a.test');
      await queriesReach(fixture, 2);
      let addresses: readonly string[] | undefined;
      void found.then((all) => (addresses = all));
      await waitFor('a response', async () => {
        await fixture.clock.advance(50);
        return addresses !== undefined;
      });
      assert.deepEqual(addresses, [address]);
      assert.ok(fixture.clock.elapsedMs() < timeoutMs);
    }
  });

  test('a late response of a name server is used although others were queried meanwhile', async (t) => {
    const late = Promise.withResolvers<DnsAnswer>();
    const fixture = await createFixture(t, (_name, count) =>
      count === 1 ? late.promise : 'silence',
    );
    const found = fixture.resolve('a.test');
    await queriesReach(fixture, 2);
    await fixture.clock.advance(4000);
    await queriesReach(fixture, 8);
    late.resolve(['192.0.2.1', '2001:db8::1']);
    assert.deepEqual(await found, ['192.0.2.1', '2001:db8::1']);
  });

  test('name servers are queried in turn when one is silent, fails or cannot be reached', async (t) => {
    const gone = await startDns(nothing);
    await gone.close();
    const silent = await addressOf(t, () => 'silence');
    const failing = await addressOf(t, () => 'failure');
    for (const before of [[...gone.servers, failing], [failing], [silent]]) {
      const fixture = await createFixture(t, () => ['192.0.2.1'], { before });
      const found = fixture.resolve('a.test');
      await fixture.clock.advance(before[0] === silent ? 700 : 0);
      await queriesReach(fixture, 2);
      assert.deepEqual(await found, ['192.0.2.1']);
    }
  });

  test('a lookup ends at once when all name servers fail', async (t) => {
    const failing = await addressOf(t, () => 'failure');
    const { failure } = await createFixture(t, () => 'failure', { after: [failing] });
    assert.equal(await failure('a.test'), 'ENAMESERVER');
  });

  test('a response to another question is ignored', async (t) => {
    const fixture = await createFixture(t, (_name, count) =>
      count === 1 ? 'forgeries' : ['192.0.2.1'],
    );
    const found = fixture.resolve('a.test');
    await queriesReach(fixture, 2);
    await fixture.clock.advance(700);
    assert.deepEqual(await found, ['192.0.2.1']);
  });

  test('a response with noise or a loop of aliases has no address', async (t) => {
    const { failure, ...fixture } = await createFixture(t, (name) =>
      name === 'loop.test' ? 'alias loop' : name === 'test' ? [] : 'noise',
    );
    assert.equal(await failure('loop.test'), 'ENODATA');
    const noise = failure('noise.test');
    await fixture.clock.advance(timeoutMs);
    assert.match(String(await noise), /^(EBADRESP|ETIMEOUT)$/);
  });

  test('each query has a port of its own', async (t) => {
    const { resolve, dns } = await createFixture(t, () => ['192.0.2.1']);
    for (let n = 0; n < 10; n += 1) await resolve(`name-${n}.test`);
    assert.ok(dns.ports.size > 10, `${dns.ports.size} ports for 20 questions`);
  });

  test('closing does not wait for name servers', async (t) => {
    const fixture = await createFixture(t, () => 'silence');
    const failure = fixture.failure('a.test');
    await queriesReach(fixture, 2);
    fixture.resolver.close();
    assert.equal(await failure, 'ECANCELLED');
    assert.equal(fixture.clock.pending, 0);
  });
});
