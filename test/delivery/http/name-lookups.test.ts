import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { limits } from '../../../src/config.ts';
import {
  createNameLookups,
  type LookupClass,
  type LookupOwner,
  type NameResult,
  type NameLimits,
  type NameLookups,
  timedOut,
} from '../../../src/delivery/http/name-lookups.ts';
import { createManualClock, type ManualClock } from '../../helpers/clock.ts';

/** Lookups that end as the test decides, on a clock that it moves. */
interface Fixture {
  readonly names: NameLookups;
  /** How long each lookup may take, in the order in which they began. */
  readonly times: readonly number[];
  readonly clock: ManualClock;
  /** Names under way, in the order in which they began. */
  underWay(): string[];
  /** Ends the lookup of a name: with its addresses, or with the code of a failure. */
  end(name: string, result: readonly string[] | string): Promise<void>;
  /** Looks a name up and ends it after some time. */
  teach(name: string, tookMs: number): Promise<void>;
}

const someone = 99;

function createFixture(changed: Partial<NameLimits> = {}): Fixture {
  const clock = createManualClock();
  const times: number[] = [];
  const open = new Map<string, PromiseWithResolvers<readonly string[]>>();
  const names = createNameLookups({
    clock,
    limits: { ...limits.names, ...changed },
    resolve: (name, timeoutMs) => {
      times.push(timeoutMs);
      assert.ok(!open.has(name), `${name} is looked up twice at once`);
      const deferred = Promise.withResolvers<readonly string[]>();
      open.set(name, deferred);
      return deferred.promise;
    },
  });
  const end: Fixture['end'] = async (name, options) => {
    const deferred = open.get(name);
    assert.ok(deferred, `${name} is not under way`);
    open.delete(name);
    if (typeof options === 'string')
      deferred.reject(Object.assign(new Error('x'), { code: options }));
    else deferred.resolve(options);
    await clock.advance(0);
  };
  return {
    names,
    times,
    clock,
    underWay: () => [...open.keys()],
    end,
    teach: async (name, tookMs) => {
      names.find(someone, name, { ended: () => undefined });
      await clock.advance(tookMs);
      await end(name, ['192.0.2.1']);
    },
  };
}

function many(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${n}`);
}

function withLimits(changed: Partial<LookupClass>): LookupClass[] {
  return limits.names.classes.map((each) => ({ ...each, ...changed }));
}

function prepare(names: NameLookups, owner: LookupOwner, all: readonly string[]): void {
  for (const name of all) void names.prepare(owner, name);
}

const [quick, unknown, slower, slowest, silent] = limits.names.classes;
/** A lookup that takes this long counts as one without a response. */
const silentMs = slowest.belowMs;
const { keptMs, failureKeptMs, usableMs } = limits.names;

describe('the result of a lookup', () => {
  test('the result of a lookup goes to all requests for the name, of every tenant', async () => {
    const { names, underWay, end } = createFixture();
    const results: NameResult[] = [];
    for (const owner of [1, 2, 'system'] as const) {
      names.find(owner, 'a.test', { ended: (result) => results.push(result) });
    }
    const prepared = names.prepare(3, 'a.test');
    assert.deepEqual(underWay(), ['a.test']);
    await end('a.test', ['192.0.2.1', '::1']);
    const found = { kind: 'found', addresses: ['192.0.2.1', '::1'] };
    assert.deepEqual(results, [found, found, found]);
    assert.equal(await prepared, undefined);
  });

  test('addresses are valid for their time, then used for a while longer and refreshed', async () => {
    const { names, clock, underWay, end } = createFixture();
    prepare(names, 1, ['a.test']);
    await end('a.test', ['192.0.2.1']);
    await clock.advance(keptMs - 1);
    assert.equal(names.prepare(1, 'a.test'), true);
    assert.deepEqual(underWay(), []);
    await clock.advance(1);
    for (let n = 0; n < 10; n += 1) assert.equal(names.prepare(1, 'a.test'), true);
    assert.deepEqual(underWay(), ['a.test']);
    await clock.advance(usableMs - keptMs - 1);
    assert.equal(names.usable('a.test')?.kind, 'found');
    await clock.advance(1);
    assert.equal(names.usable('a.test'), undefined);
    assert.equal(names.isReady('a.test'), false);
    const prepared = names.prepare(1, 'a.test');
    assert.notEqual(prepared, true);
    await end('a.test', ['192.0.2.2']);
    assert.equal(await prepared, undefined);
    assert.deepEqual(names.usable('a.test'), { kind: 'found', addresses: ['192.0.2.2'] });
  });

  test('a failure is valid for a shorter time', async () => {
    const { names, clock, end } = createFixture();
    prepare(names, 1, ['a.test']);
    await end('a.test', 'ENOTFOUND');
    const failed = { kind: 'failed', code: 'ENOTFOUND' };
    assert.deepEqual(names.usable('a.test'), failed);
    assert.equal(names.isReady('a.test'), true);
    assert.equal(names.prepare(1, 'a.test'), true);
    await clock.advance(failureKeptMs);
    assert.equal(names.usable('a.test'), undefined);
    assert.equal(names.isReady('a.test'), false);
    await clock.advance(usableMs - failureKeptMs - 1);
    assert.deepEqual(names.last('a.test'), failed, 'for an attempt that has begun');
    await clock.advance(1);
    assert.equal(names.last('a.test'), undefined);
  });

  test('a result without addresses is a failure', async () => {
    const { names, end } = createFixture();
    prepare(names, 1, ['a.test']);
    await end('a.test', []);
    assert.deepEqual(names.usable('a.test'), { kind: 'failed', code: 'ENODATA' });
  });

  for (const code of ['ESERVFAIL', 'ECONNREFUSED', timedOut]) {
    test(`the former addresses are kept when a name server fails (${code})`, async () => {
      const { names, clock, teach, underWay, end } = createFixture();
      await teach('a.test', 0);
      await clock.advance(keptMs);
      const results: NameResult[] = [];
      names.find(1, 'a.test', { ended: (result) => results.push(result) });
      while (underWay().length > 0) await end('a.test', code);
      const before = { kind: 'found', addresses: ['192.0.2.1'] };
      assert.deepEqual(results, [before]);
      assert.deepEqual(names.usable('a.test'), before);
      assert.equal(names.prepare(1, 'a.test'), true);
      assert.deepEqual(underWay(), [], 'the failure is valid for a moment');
      await clock.advance(failureKeptMs);
      assert.equal(names.prepare(1, 'a.test'), true);
      assert.deepEqual(underWay(), ['a.test']);
    });
  }

  for (const code of ['ENOTFOUND', 'ENODATA']) {
    test(`the former addresses are dropped when the name does not exist (${code})`, async () => {
      const { names, clock, teach, end } = createFixture();
      await teach('a.test', 0);
      await clock.advance(keptMs);
      prepare(names, 1, ['a.test']);
      await end('a.test', code);
      assert.deepEqual(names.usable('a.test'), { kind: 'failed', code });
    });
  }
});

describe('a lookup that takes long', () => {
  test('a lookup that takes long is stopped and restarted in a slower class with more time', async () => {
    const { names, clock, underWay, end, times } = createFixture();
    const seen: string[] = [];
    names.find(1, 'silent', {
      begun: () => seen.push('begun'),
      ended: ({ kind }) => seen.push(kind),
    });
    const all = ['silent', 'silent0', 'silent1'];
    prepare(names, 1, all.slice(1));
    for (const { belowMs } of [unknown, slower, slowest]) {
      await clock.advance(belowMs);
      for (const name of all.toReversed()) await end(name, timedOut);
    }
    assert.deepEqual(underWay(), ['silent1', 'silent0']);
    assert.deepEqual(seen, ['begun', 'begun', 'begun']);
    await end('silent1', timedOut);
    assert.deepEqual(seen, ['begun', 'begun', 'begun', 'begun']);
    await end('silent', timedOut);
    assert.deepEqual(seen, ['begun', 'begun', 'begun', 'begun', 'failed']);
    const ofClasses = [unknown, slower, slowest].map(({ belowMs }) => belowMs);
    const limitsMs = [...ofClasses, limits.names.timeoutMs];
    assert.deepEqual(
      times,
      limitsMs.flatMap((ms) => [ms, ms, ms]),
    );
    assert.deepEqual(names.usable('silent'), { kind: 'failed', code: timedOut });
  });

  test('a quick name has no less time than an unknown one', async () => {
    const { names, clock, teach, times } = createFixture();
    await teach('quick.test', 0);
    await clock.advance(keptMs);
    prepare(names, 1, ['quick.test']);
    assert.deepEqual(times, [unknown.belowMs, unknown.belowMs]);
  });

  test('a slow lookup delays unknown names of its tenant for a moment only', async () => {
    const { names, clock, underWay, end } = createFixture();
    prepare(names, 1, [...many('silent', 20), 'healthy']);
    for (let round = 0; round < 3; round += 1) {
      await clock.advance(silentMs);
      for (const name of underWay()) await end(name, timedOut);
    }
    await clock.advance(silentMs);
    assert.ok(underWay().includes('healthy'));
  });
});

describe('lookups at once', () => {
  test('concurrent lookups are bounded per tenant, also for the service itself', () => {
    const { names, underWay } = createFixture();
    for (const owner of [1, 'system'] as const) prepare(names, owner, many(`${owner}-`, 20));
    const { atOncePerOwner: places } = unknown;
    assert.deepEqual(underWay(), [...many('1-', places), ...many('system-', places)]);
    assert.equal(names.count().waiting, 2 * (20 - places));
  });

  test('concurrent lookups are bounded in total, with a reserve for quick names', async () => {
    const { names, clock, teach, underWay } = createFixture();
    await teach('quick.test', 0);
    await clock.advance(keptMs);
    for (let tenant = 1; tenant <= 20; tenant += 1) prepare(names, tenant, many(`${tenant}-`, 20));
    assert.equal(underWay().length, unknown.atOnce);
    prepare(names, 1, ['quick.test']);
    assert.equal(underWay().at(-1), 'quick.test');
  });

  test('concurrent lookups never exceed a bound', async () => {
    const { names, clock, underWay, end } = createFixture();
    let most = 0;
    for (let round = 0; round < 40; round += 1) {
      for (let tenant = 1; tenant <= 30; tenant += 1)
        prepare(names, tenant, many(`${tenant}-`, 12));
      const all = underWay();
      most = Math.max(most, all.length);
      const ofTenants = Map.groupBy(all, (name) => name.split('-')[0]);
      for (const each of ofTenants.values()) {
        assert.ok(each.length <= quick.atOncePerOwner);
      }
      await clock.advance(round % 10 === 9 ? silentMs : 10);
      for (const [n, name] of all.entries()) {
        if ((n + round) % 5 > 0) await end(name, ['192.0.2.1']);
      }
      await clock.advance(keptMs);
    }
    assert.equal(most, quick.atOnce);
    while (underWay().length > 0) await end(underWay()[0] ?? '', ['192.0.2.1']);
    assert.deepEqual([names.count().waiting, names.count().underWay], [0, 0]);
  });
});

describe('silent names of a tenant', () => {
  test('silent names of a tenant leave lookups to its quick names', async () => {
    const { names, clock, teach, underWay, end } = createFixture();
    for (const name of many('silent', 20)) await teach(name, silentMs);
    await teach('quick.test', 0);
    await clock.advance(keptMs);
    prepare(names, 1, many('silent', 20));
    assert.equal(underWay().length, silent.atOncePerOwner);
    prepare(names, 1, many('unknown', 20));
    assert.equal(underWay().length, unknown.atOncePerOwner, 'slow and unknown names together');
    prepare(names, 1, ['quick.test']);
    assert.equal(underWay().at(-1), 'quick.test');
    await end('quick.test', ['192.0.2.1']);
    assert.equal(names.prepare(1, 'quick.test'), true);
  });

  test('silent names of a tenant leave all but a few lookups to other tenants', async () => {
    const { names, teach, clock, underWay } = createFixture();
    for (let tenant = 1; tenant <= 10; tenant += 1) {
      for (const name of many(`${tenant}-`, 4)) await teach(name, silentMs);
    }
    await clock.advance(keptMs);
    for (let tenant = 1; tenant <= 10; tenant += 1) prepare(names, tenant, many(`${tenant}-`, 4));
    assert.equal(underWay().length, silent.atOnce);
    prepare(names, 11, many('unknown', 6));
    assert.deepEqual(underWay().slice(-6), many('unknown', 6));
  });

  test('silent names are looked up round robin, and none is skipped while quick ones keep coming', async () => {
    const { names, clock, teach, underWay, end } = createFixture({
      classes: withLimits({ atOnce: 1 }),
    });
    await teach('slow.test', silentMs);
    for (const name of many('quick', 40)) await teach(name, 0);
    await clock.advance(keptMs);
    prepare(names, 1, ['slow.test']);
    await end('slow.test', ['192.0.2.1']);
    await clock.advance(keptMs);
    prepare(names, 2, many('quick', 40));
    prepare(names, 1, ['slow.test']);
    let before = 0;
    while (underWay()[0] !== 'slow.test') {
      await end(underWay()[0] ?? '', ['192.0.2.1']);
      before += 1;
    }
    assert.ok(before <= 8, `${before} went before it`);
  });

  test('a silent name is in a quick class again after several quick lookups in a row', async () => {
    const { names, clock, teach, underWay } = createFixture();
    const flapping = many('flapping', 8);
    for (const tookMs of [0, silentMs, 0, silentMs, 0]) {
      for (const name of flapping) await teach(name, tookMs);
    }
    await clock.advance(keptMs);
    prepare(names, 1, flapping);
    assert.equal(underWay().length, slowest.atOncePerOwner);
    const settled = createFixture();
    for (const tookMs of [silentMs, 0, 0, 0, 0]) {
      for (const name of flapping) await settled.teach(name, tookMs);
    }
    await settled.clock.advance(keptMs);
    prepare(settled.names, 1, flapping);
    assert.equal(settled.underWay().length, quick.atOncePerOwner);
  });
});

describe('the order of lookups', () => {
  test('lookups go round robin over the tenants', async () => {
    const { names, underWay, end } = createFixture({
      classes: withLimits({ atOnce: 2, atOncePerOwner: 2 }),
    });
    prepare(names, 1, many('a', 5));
    prepare(names, 2, many('b', 2));
    prepare(names, 3, many('c', 1));
    const began: string[] = [];
    while (underWay().length > 0) {
      const [first = ''] = underWay();
      began.push(first);
      await end(first, ['192.0.2.1']);
    }
    assert.deepEqual(began, ['a0', 'a1', 'a2', 'b0', 'c0', 'a3', 'b1', 'a4']);
  });

  test('a request that is first goes before the others of its tenant', async () => {
    const { names, underWay, end } = createFixture({ classes: withLimits({ atOnce: 1 }) });
    const begun: string[] = [];
    prepare(names, 1, ['a', 'b', 'c']);
    const request = { first: true, begun: () => begun.push('c'), ended: () => undefined };
    names.find(1, 'c', request);
    assert.equal(begun.length, 0);
    await end('a', ['192.0.2.1']);
    assert.deepEqual(underWay(), ['c']);
    assert.deepEqual(begun, ['c']);
    names.find(2, 'c', { ...request, begun: () => begun.push('joined') });
    assert.deepEqual(begun, ['c', 'joined'], 'it was queued already');
  });

  test('requests that are first keep their order', async () => {
    const { names, underWay, end } = createFixture({ classes: withLimits({ atOnce: 1 }) });
    prepare(names, 1, ['a', 'b', 'c', 'd']);
    for (const name of ['d', 'c']) names.find(1, name, { first: true, ended: () => undefined });
    const began: string[] = [];
    while (underWay().length > 0) {
      const [first = ''] = underWay();
      began.push(first);
      await end(first, ['192.0.2.1']);
    }
    assert.deepEqual(began, ['a', 'd', 'c', 'b']);
  });

  test('a name that several tenants wait for is charged to one of them', async () => {
    const { names, underWay, end } = createFixture({
      classes: withLimits({ atOncePerOwner: 1 }),
    });
    prepare(names, 1, ['a', 'shared', 'b']);
    prepare(names, 2, ['shared', 'c']);
    assert.deepEqual(underWay(), ['a', 'shared']);
    await end('a', ['192.0.2.1']);
    assert.deepEqual(underWay(), ['shared', 'b']);
    await end('shared', ['192.0.2.1']);
    assert.deepEqual(underWay(), ['b', 'c']);
  });
});

test('no more names are cached than the limit, and none with a pending request is removed', async () => {
  const { names, underWay, end, clock } = createFixture({ namesMax: 10 });
  prepare(names, 1, many('silent', 20));
  for (let round = 0; round < 50; round += 1) {
    prepare(names, 2, [`name${round}`]);
    await end(`name${round}`, ['192.0.2.1']);
    await clock.advance(1);
  }
  assert.equal(names.count().names, 10);
  const ended: string[] = [];
  for (const name of many('silent', 20)) names.find(1, name, { ended: () => ended.push(name) });
  while (underWay().length > 0) await end(underWay()[0] ?? '', ['192.0.2.1']);
  assert.equal(ended.length, 20);
  assert.equal(names.count().names, 10);
});
