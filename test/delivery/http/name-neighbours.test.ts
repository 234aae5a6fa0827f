import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../../src/config.ts';
import {
  createNameLookups,
  type NameLookups,
  timedOut,
} from '../../../src/delivery/http/name-lookups.ts';
import { createManualClock, type ManualClock } from '../../helpers/clock.ts';

/** Measures the wait of a healthy name while other names of its tenant are looked up, in simulated time. */

interface Server {
  readonly ms: number;
  /** Addresses, or the code of a failure. */
  readonly answer: readonly string[] | string;
}

const healthy: Server = { ms: 5, answer: ['192.0.2.2'] };
const silent: Server = { ms: Infinity, answer: [] };

/** The names of a tenant, of which all but `healthy.test` have the given server. */
function createFixture(server: Server): { clock: ManualClock; names: NameLookups } {
  const clock = createManualClock();
  const names = createNameLookups({
    clock,
    limits: limits.names,
    resolve: (name, timeoutMs) => {
      const { ms, answer } = name === 'healthy.test' ? healthy : server;
      const code = ms >= timeoutMs ? timedOut : answer;
      const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
      clock.after(Math.min(ms, timeoutMs), () => {
        if (typeof code === 'string') reject(Object.assign(new Error('x'), { code }));
        else resolve(code);
      });
      return promise;
    },
  });
  return { clock, names };
}

/** Looks names up like streams that always have an event to send. */
function keepAsking({ clock, names }: ReturnType<typeof createFixture>, count: number): void {
  const ask = async (name: string): Promise<never> => {
    for (;;) {
      const prepared = names.prepare(1, name);
      if (prepared !== true) await prepared;
      const { promise, resolve } = Promise.withResolvers<void>();
      clock.after(100, resolve);
      await promise;
    }
  };
  for (let n = 0; n < count; n += 1) void ask(`other-${n}.test`);
}

async function waitOf({ clock, names }: ReturnType<typeof createFixture>): Promise<number> {
  const startedMs = clock.elapsedMs();
  const prepared = names.prepare(1, 'healthy.test');
  if (prepared === true) return 0;
  const ended: number[] = [];
  void prepared.then(() => ended.push(clock.elapsedMs()));
  while (ended.length === 0 && clock.elapsedMs() - startedMs < 60_000) await clock.advance(10);
  return (ended[0] ?? Infinity) - startedMs;
}

const servers: readonly (readonly [count: number, server: Server])[] = [
  [100, { ms: 45, answer: 'ESERVFAIL' }],
  [100, { ms: 190, answer: 'ESERVFAIL' }],
  [100, { ms: 190, answer: ['192.0.2.1'] }],
  [20, { ms: 950, answer: 'ESERVFAIL' }],
  [100, { ms: 950, answer: 'ESERVFAIL' }],
  [100, { ms: 950, answer: ['192.0.2.1'] }],
  [100, { ms: 1500, answer: ['192.0.2.1'] }],
  [100, silent],
];

for (const [count, server] of servers) {
  const what = `${count} names of its tenant that take ${server.ms} ms (${String(server.answer)})`;
  test(
    `a quick name not needed for two minutes does not wait for ${what}`,
    { tags: ['long'] },
    async () => {
      const fixture = createFixture(server);
      assert.ok((await waitOf(fixture)) <= 10);
      keepAsking(fixture, count);
      await fixture.clock.advance(120_000);
      const waitedMs = await waitOf(fixture);
      assert.ok(waitedMs <= 200, `${waitedMs} ms`);
    },
  );
}

test('a new name does not wait long for 100 that are as new and silent', async () => {
  const fixture = createFixture(silent);
  keepAsking(fixture, 100);
  const waitedMs = await waitOf(fixture);
  assert.ok(waitedMs <= 5000, `${waitedMs} ms`);
});
