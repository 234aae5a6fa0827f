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

/** Lookups whose answers the test gives, on a clock that it moves. */
interface Scene {
  readonly names: NameLookups;
  /** How long each lookup may take, in the order in which they began. */
  readonly times: readonly number[];
  readonly clock: ManualClock;
  /** Names under way, in the order in which they began. */
  underWay(): string[];
  /** Ends the lookup of a name: with its addresses, or with the code of a failure. */
  end(name: string, answer: readonly string[] | string): Promise<void>;
  /** Looks a name up and ends it after some time. */
  teach(name: string, tookMs: number): Promise<void>;
}

const someone = 99;

function sceneOf(changed: Partial<NameLimits> = {}): Scene {
  const clock = createManualClock();
  const times: number[] = [];
  const open = new Map<string, PromiseWithResolvers<readonly string[]>>();
  const names = createNameLookups({
    clock,
    limits: { ...limits.names, ...changed },
    resolve: (name, timeoutMs) => {
      times.push(timeoutMs);
      assert.ok(!open.has(name), `${name} is looked up twice at once`);
      const answer = Promise.withResolvers<readonly string[]>();
      open.set(name, answer);
      return answer.promise;
    },
  });
  const end: Scene['end'] = async (name, given) => {
    const answer = open.get(name);
    assert.ok(answer, `${name} is not under way`);
    open.delete(name);
    if (typeof given === 'string') answer.reject(Object.assign(new Error('x'), { code: given }));
    else answer.resolve(given);
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

function withPlaces(places: Partial<LookupClass>): LookupClass[] {
  return limits.names.classes.map((each) => ({ ...each, ...places }));
}

function ask(names: NameLookups, owner: LookupOwner, all: readonly string[]): void {
  for (const name of all) void names.prepare(owner, name);
}

const [quick, unknown, slower, slowest, silent] = limits.names.classes;
/** A name that takes this long is like one that nobody answers for. */
const silentMs = slowest.belowMs;
const { keptMs, failureKeptMs, usableMs } = limits.names;

describe('the answer of a lookup', () => {
  test('goes to everyone who waits for the name, of every tenant', async () => {
    const { names, underWay, end } = sceneOf();
    const answers: NameResult[] = [];
    for (const owner of [1, 2, 'system'] as const) {
      names.find(owner, 'a.test', { ended: (answer) => answers.push(answer) });
    }
    const prepared = names.prepare(3, 'a.test');
    assert.deepEqual(underWay(), ['a.test']);
    await end('a.test', ['192.0.2.1', '::1']);
    const found = { kind: 'found', addresses: ['192.0.2.1', '::1'] };
    assert.deepEqual(answers, [found, found, found]);
    assert.equal(await prepared, undefined);
  });

  test('is valid for its time, then used for a while longer and refreshed', async () => {
    const { names, clock, underWay, end } = sceneOf();
    ask(names, 1, ['a.test']);
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

  test('is valid for a shorter time when the name could not be resolved', async () => {
    const { names, clock, end } = sceneOf();
    ask(names, 1, ['a.test']);
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

  test('without addresses is a failure', async () => {
    const { names, end } = sceneOf();
    ask(names, 1, ['a.test']);
    await end('a.test', []);
    assert.deepEqual(names.usable('a.test'), { kind: 'failed', code: 'ENODATA' });
  });

  for (const code of ['ESERVFAIL', 'ECONNREFUSED', timedOut]) {
    test(`keeps the addresses of before when a name server fails (${code})`, async () => {
      const { names, clock, teach, underWay, end } = sceneOf();
      await teach('a.test', 0);
      await clock.advance(keptMs);
      const answers: NameResult[] = [];
      names.find(1, 'a.test', { ended: (answer) => answers.push(answer) });
      while (underWay().length > 0) await end('a.test', code);
      const before = { kind: 'found', addresses: ['192.0.2.1'] };
      assert.deepEqual(answers, [before]);
      assert.deepEqual(names.usable('a.test'), before);
      assert.equal(names.prepare(1, 'a.test'), true);
      assert.deepEqual(underWay(), [], 'the failure is valid for a moment');
      await clock.advance(failureKeptMs);
      assert.equal(names.prepare(1, 'a.test'), true);
      assert.deepEqual(underWay(), ['a.test']);
    });
  }

  for (const code of ['ENOTFOUND', 'ENODATA']) {
    test(`replaces the addresses of before when the name is gone (${code})`, async () => {
      const { names, clock, teach, end } = sceneOf();
      await teach('a.test', 0);
      await clock.advance(keptMs);
      ask(names, 1, ['a.test']);
      await end('a.test', code);
      assert.deepEqual(names.usable('a.test'), { kind: 'failed', code });
    });
  }
});

describe('a lookup that takes long', () => {
  test('gives its place up, and gets one of a slower class with more time', async () => {
    const { names, clock, underWay, end, times } = sceneOf();
    const seen: string[] = [];
    names.find(1, 'silent', {
      begun: () => seen.push('begun'),
      ended: ({ kind }) => seen.push(kind),
    });
    const all = ['silent', 'silent0', 'silent1'];
    ask(names, 1, all.slice(1));
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

  test('has no less time for a quick name than for an unknown one', async () => {
    const { names, clock, teach, times } = sceneOf();
    await teach('quick.test', 0);
    await clock.advance(keptMs);
    ask(names, 1, ['quick.test']);
    assert.deepEqual(times, [unknown.belowMs, unknown.belowMs]);
  });

  test('holds up unknown names of its tenant for a moment only', async () => {
    const { names, clock, underWay, end } = sceneOf();
    ask(names, 1, [...many('silent', 20), 'healthy']);
    for (let round = 0; round < 3; round += 1) {
      await clock.advance(silentMs);
      for (const name of underWay()) await end(name, timedOut);
    }
    await clock.advance(silentMs);
    assert.ok(underWay().includes('healthy'));
  });
});

describe('lookups at once', () => {
  test('are bounded per tenant, also for the service itself', () => {
    const { names, underWay } = sceneOf();
    for (const owner of [1, 'system'] as const) ask(names, owner, many(`${owner}-`, 20));
    const { atOncePerOwner: places } = unknown;
    assert.deepEqual(underWay(), [...many('1-', places), ...many('system-', places)]);
    assert.equal(names.count().waiting, 2 * (20 - places));
  });

  test('are bounded in all, and a place is kept for names that are quick', async () => {
    const { names, clock, teach, underWay } = sceneOf();
    await teach('quick.test', 0);
    await clock.advance(keptMs);
    for (let tenant = 1; tenant <= 20; tenant += 1) ask(names, tenant, many(`${tenant}-`, 20));
    assert.equal(underWay().length, unknown.atOnce);
    ask(names, 1, ['quick.test']);
    assert.equal(underWay().at(-1), 'quick.test');
  });

  test('never exceed a bound, whatever names and tenants do', async () => {
    const { names, clock, underWay, end } = sceneOf();
    let most = 0;
    for (let round = 0; round < 40; round += 1) {
      for (let tenant = 1; tenant <= 30; tenant += 1) ask(names, tenant, many(`${tenant}-`, 12));
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
  test('leave places to its quick names', async () => {
    const { names, clock, teach, underWay, end } = sceneOf();
    for (const name of many('silent', 20)) await teach(name, silentMs);
    await teach('quick.test', 0);
    await clock.advance(keptMs);
    ask(names, 1, many('silent', 20));
    assert.equal(underWay().length, silent.atOncePerOwner);
    ask(names, 1, many('unknown', 20));
    assert.equal(underWay().length, unknown.atOncePerOwner, 'slow and unknown names together');
    ask(names, 1, ['quick.test']);
    assert.equal(underWay().at(-1), 'quick.test');
    await end('quick.test', ['192.0.2.1']);
    assert.equal(names.prepare(1, 'quick.test'), true);
  });

  test('leave all but a few places to other tenants', async () => {
    const { names, teach, clock, underWay } = sceneOf();
    for (let tenant = 1; tenant <= 10; tenant += 1) {
      for (const name of many(`${tenant}-`, 4)) await teach(name, silentMs);
    }
    await clock.advance(keptMs);
    for (let tenant = 1; tenant <= 10; tenant += 1) ask(names, tenant, many(`${tenant}-`, 4));
    assert.equal(underWay().length, silent.atOnce);
    ask(names, 11, many('unknown', 6));
    assert.deepEqual(underWay().slice(-6), many('unknown', 6));
  });

  test('are looked up in turns, and none is left out while quick ones keep coming', async () => {
    const { names, clock, teach, underWay, end } = sceneOf({ classes: withPlaces({ atOnce: 1 }) });
    await teach('slow.test', silentMs);
    for (const name of many('quick', 40)) await teach(name, 0);
    await clock.advance(keptMs);
    ask(names, 1, ['slow.test']);
    await end('slow.test', ['192.0.2.1']);
    await clock.advance(keptMs);
    ask(names, 2, many('quick', 40));
    ask(names, 1, ['slow.test']);
    let before = 0;
    while (underWay()[0] !== 'slow.test') {
      await end(underWay()[0] ?? '', ['192.0.2.1']);
      before += 1;
    }
    assert.ok(before <= 8, `${before} went before it`);
  });

  test('are trusted again after several quick lookups in a row', async () => {
    const { names, clock, teach, underWay } = sceneOf();
    const flapping = many('flapping', 8);
    for (const tookMs of [0, silentMs, 0, silentMs, 0]) {
      for (const name of flapping) await teach(name, tookMs);
    }
    await clock.advance(keptMs);
    ask(names, 1, flapping);
    assert.equal(underWay().length, slowest.atOncePerOwner);
    const settled = sceneOf();
    for (const tookMs of [silentMs, 0, 0, 0, 0]) {
      for (const name of flapping) await settled.teach(name, tookMs);
    }
    await settled.clock.advance(keptMs);
    ask(settled.names, 1, flapping);
    assert.equal(settled.underWay().length, quick.atOncePerOwner);
  });
});

describe('turns', () => {
  test('go round over the tenants', async () => {
    const { names, underWay, end } = sceneOf({
      classes: withPlaces({ atOnce: 2, atOncePerOwner: 2 }),
    });
    ask(names, 1, many('a', 5));
    ask(names, 2, many('b', 2));
    ask(names, 3, many('c', 1));
    const began: string[] = [];
    while (underWay().length > 0) {
      const [first = ''] = underWay();
      began.push(first);
      await end(first, ['192.0.2.1']);
    }
    assert.deepEqual(began, ['a0', 'a1', 'a2', 'b0', 'c0', 'a3', 'b1', 'a4']);
  });

  test('a request that is first goes before the others of its tenant', async () => {
    const { names, underWay, end } = sceneOf({ classes: withPlaces({ atOnce: 1 }) });
    const begun: string[] = [];
    ask(names, 1, ['a', 'b', 'c']);
    const request = { first: true, begun: () => begun.push('c'), ended: () => undefined };
    names.find(1, 'c', request);
    assert.equal(begun.length, 0);
    await end('a', ['192.0.2.1']);
    assert.deepEqual(underWay(), ['c']);
    assert.deepEqual(begun, ['c']);
    names.find(2, 'c', { ...request, begun: () => begun.push('joined') });
    assert.deepEqual(begun, ['c', 'joined'], 'it has its place already');
  });

  test('requests that are first keep their order', async () => {
    const { names, underWay, end } = sceneOf({ classes: withPlaces({ atOnce: 1 }) });
    ask(names, 1, ['a', 'b', 'c', 'd']);
    for (const name of ['d', 'c']) names.find(1, name, { first: true, ended: () => undefined });
    const began: string[] = [];
    while (underWay().length > 0) {
      const [first = ''] = underWay();
      began.push(first);
      await end(first, ['192.0.2.1']);
    }
    assert.deepEqual(began, ['a', 'd', 'c', 'b']);
  });

  test('a name that several tenants wait for is looked up at the expense of one', async () => {
    const { names, underWay, end } = sceneOf({
      classes: withPlaces({ atOncePerOwner: 1 }),
    });
    ask(names, 1, ['a', 'shared', 'b']);
    ask(names, 2, ['shared', 'c']);
    assert.deepEqual(underWay(), ['a', 'shared']);
    await end('a', ['192.0.2.1']);
    assert.deepEqual(underWay(), ['shared', 'b']);
    await end('shared', ['192.0.2.1']);
    assert.deepEqual(underWay(), ['b', 'c']);
  });
});

test('no more names are remembered than the limit, and none that is waited for is forgotten', async () => {
  const { names, underWay, end, clock } = sceneOf({ namesMax: 10 });
  ask(names, 1, many('silent', 20));
  for (let round = 0; round < 50; round += 1) {
    ask(names, 2, [`name${round}`]);
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
