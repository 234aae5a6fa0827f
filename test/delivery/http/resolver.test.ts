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

/** The resolver of production over real sockets; only its clock stands still. */
interface Scene {
  readonly resolver: Resolver;
  readonly clock: ManualClock;
  readonly dns: DnsServer;
  readonly folder: string;
  resolve(name: string): Promise<readonly string[]>;
  /** The code that a name fails with. */
  failure(name: string): Promise<unknown>;
}

interface Given {
  readonly hosts?: string;
  readonly resolvConf?: string;
  /** Name servers that are asked before or after the one of the zone. */
  readonly before?: readonly string[];
  readonly after?: readonly string[];
}

async function sceneOf(t: TestContext, zone: Zone, given: Given = {}): Promise<Scene> {
  const { hosts = '', resolvConf = '', before = [], after = [] } = given;
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

/** Moves the clock until the name servers were asked so often. */
async function asked({ clock, dns }: Scene, questions: number): Promise<void> {
  await waitFor(`${questions} questions`, () => dns.questions.length >= questions, {
    progress: () => dns.questions.length,
  });
  await clock.advance(0);
}

const { timeoutMs } = limits.names;

const nothing: Zone = () => 'no such name';

describe('without a name server', () => {
  test('an address is itself', async (t) => {
    const { resolve, dns } = await sceneOf(t, nothing);
    for (const address of ['192.0.2.1', '::1', '2001:db8::1']) {
      assert.deepEqual(await resolve(address), [address]);
    }
    assert.equal(dns.questions.length, 0);
  });

  test('the hosts file is honoured, also when it has changed', async (t) => {
    const hosts = '192.0.2.7 Receiver.internal receiver\n192.0.2.8 receiver\n';
    const { resolve, failure, dns, clock, folder } = await sceneOf(t, nothing, { hosts });
    assert.deepEqual(await resolve('receiver.INTERNAL'), ['192.0.2.7']);
    assert.deepEqual(await resolve('receiver'), ['192.0.2.7', '192.0.2.8']);
    assert.deepEqual(await resolve('receiver.'), ['192.0.2.7', '192.0.2.8']);
    assert.equal(dns.questions.length, 0);
    // Replaced, as most programs write files.
    await writeFile(join(folder, 'new'), '192.0.2.9 receiver');
    await rename(join(folder, 'new'), join(folder, 'hosts'));
    await clock.advance(1000);
    assert.deepEqual(await resolve('receiver'), ['192.0.2.9']);
    assert.equal(await failure('receiver.internal'), 'ENOTFOUND');
    await rm(join(folder, 'hosts'));
    await clock.advance(1000);
    assert.equal(await failure('receiver'), 'ENOTFOUND');
  });

  test('localhost and the names below it are loopback, unless the hosts file knows better', async (t) => {
    const hosts = '192.0.2.7 app.localhost';
    const { resolve, dns } = await sceneOf(t, () => ['192.0.2.66'], { hosts });
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

  test('has addresses of one family or of both, IPv4 first', async (t) => {
    const { resolve } = await sceneOf(t, zone);
    assert.deepEqual(await resolve('four.test'), ['192.0.2.1', '192.0.2.2']);
    assert.deepEqual(await resolve('six.test'), ['2001:db8::1']);
    assert.deepEqual(await resolve('both.test'), ['192.0.2.1', '2001:db8::1']);
  });

  test('has no more addresses than the limit, also where its answer needs TCP', async (t) => {
    const { resolve, dns } = await sceneOf(t, zone);
    assert.equal((await resolve('many.test')).length, limits.resolver.addressesMax);
    assert.deepEqual(dns.tcpQuestions, ['many.test A']);
  });

  test('without addresses, or that does not exist, fails with a code of its own', async (t) => {
    const { failure } = await sceneOf(t, zone);
    assert.equal(await failure('empty.test'), 'ENODATA');
    assert.equal(await failure('none.test'), 'ENOTFOUND');
  });

  test('that no name server can be asked for does not exist', async (t) => {
    const { failure } = await sceneOf(t, zone);
    for (const name of ['', '.', 'a..b', `${'a'.repeat(64)}.test`, 'a.'.repeat(200)]) {
      assert.equal(await failure(name), 'ENOTFOUND', JSON.stringify(name));
    }
  });

  test('is searched for in the domains of resolv.conf, also when they have changed', async (t) => {
    const resolvConf = 'search other.test corp.test\n';
    const { resolve, failure, dns, clock, folder } = await sceneOf(t, zone, { resolvConf });
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
  test('that are silent end a lookup in its time', async (t) => {
    const scene = await sceneOf(t, () => 'silence');
    const failure = scene.failure('a.test');
    await asked(scene, 2);
    await scene.clock.advance(timeoutMs);
    assert.equal(await failure, 'ETIMEOUT');
    assert.equal(scene.clock.pending, 0);
  });

  test('that are silent for one family do not hold up the other one', async (t) => {
    for (const family of [4, 6]) {
      const address = family === 4 ? '192.0.2.1' : '2001:db8::1';
      const scene = await sceneOf(t, (_name, _asked, of) =>
        of === family ? [address] : 'silence',
      );
      const found = scene.resolve('a.test');
      await asked(scene, 2);
      let addresses: readonly string[] | undefined;
      void found.then((all) => (addresses = all));
      await waitFor('an answer', async () => {
        await scene.clock.advance(50);
        return addresses !== undefined;
      });
      assert.deepEqual(addresses, [address]);
      assert.ok(scene.clock.elapsedMs() < timeoutMs);
    }
  });

  test('that answer late are believed, although they were asked again meanwhile', async (t) => {
    const late = Promise.withResolvers<DnsAnswer>();
    const scene = await sceneOf(t, (_name, count) => (count === 1 ? late.promise : 'silence'));
    const found = scene.resolve('a.test');
    await asked(scene, 2);
    await scene.clock.advance(4000);
    await asked(scene, 8);
    late.resolve(['192.0.2.1', '2001:db8::1']);
    assert.deepEqual(await found, ['192.0.2.1', '2001:db8::1']);
  });

  test('are asked in turn when one is silent, fails or cannot be reached', async (t) => {
    const gone = await startDns(nothing);
    await gone.close();
    const silent = await addressOf(t, () => 'silence');
    const failing = await addressOf(t, () => 'failure');
    for (const before of [[...gone.servers, failing], [failing], [silent]]) {
      const scene = await sceneOf(t, () => ['192.0.2.1'], { before });
      const found = scene.resolve('a.test');
      await scene.clock.advance(before[0] === silent ? 700 : 0);
      await asked(scene, 2);
      assert.deepEqual(await found, ['192.0.2.1']);
    }
  });

  test('that all fail end the lookup at once', async (t) => {
    const failing = await addressOf(t, () => 'failure');
    const { failure } = await sceneOf(t, () => 'failure', { after: [failing] });
    assert.equal(await failure('a.test'), 'ESERVFAIL');
  });

  test('that answer for another question are not believed', async (t) => {
    const scene = await sceneOf(t, (_name, count) => (count === 1 ? 'forgeries' : ['192.0.2.1']));
    const found = scene.resolve('a.test');
    await asked(scene, 2);
    await scene.clock.advance(700);
    assert.deepEqual(await found, ['192.0.2.1']);
  });

  test('that answer with noise or with a loop have no address', async (t) => {
    const { failure, ...scene } = await sceneOf(t, (name) =>
      name === 'loop.test' ? 'alias loop' : 'noise',
    );
    assert.equal(await failure('loop.test'), 'ENODATA');
    const noise = failure('noise.test');
    await scene.clock.advance(timeoutMs);
    assert.match(String(await noise), /^(EBADRESP|ETIMEOUT)$/);
  });

  test('get each question from a port of its own', async (t) => {
    const { resolve, dns } = await sceneOf(t, () => ['192.0.2.1']);
    for (let n = 0; n < 10; n += 1) await resolve(`name-${n}.test`);
    assert.ok(dns.ports.size > 10, `${dns.ports.size} ports for 20 questions`);
  });

  test('are not waited for at the end', async (t) => {
    const scene = await sceneOf(t, () => 'silence');
    const failure = scene.failure('a.test');
    await asked(scene, 2);
    scene.resolver.close();
    assert.equal(await failure, 'ECANCELLED');
    assert.equal(scene.clock.pending, 0);
  });
});
