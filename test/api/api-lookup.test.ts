import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { apisOf, audiencesOf } from '../../src/api/api-lookup.ts';
import { type AuthFixture, openAuthFixture, plainHttp } from '../auth/fixture.ts';

/** Reading an API of 1,000 scopes takes 5 ms, and the store in memory blocks the event loop. */
describe('APIs of a list', () => {
  const ids = Array.from({ length: 10 }, (_, n) => `api_${n}`);
  const audiences = ids.map((id) => `https://${id}.test`);
  let fixture: AuthFixture;

  before(async () => {
    fixture = await openAuthFixture();
    for (const id of ids) {
      await fixture.store.apis.create({
        tenant: fixture.tenant.id,
        id,
        identifier: `https://${id}.test`,
        name: id,
        scopes: [],
        enforcePolicies: false,
        tokenDialect: 'access_token',
        tokenLifetimeSeconds: 60,
        createdAt: 1,
      });
    }
  });
  after(() => fixture.close());

  /** Counts the turns of the event loop while some work runs. */
  const turnsOf = async (work: () => Promise<unknown>): Promise<number> => {
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      if (isOver) return;
      turns += 1;
      setImmediate(turn);
    };
    setImmediate(turn);
    await work();
    isOver = true;
    return turns;
  };

  test('audiencesOf yields to the event loop after each API', async () => {
    const turns = await turnsOf(async () => {
      const found = await audiencesOf(fixture, fixture.tenant, ids);
      assert.deepEqual(
        ids.map((id) => found.get(id)),
        audiences,
      );
    });
    assert.ok(turns >= ids.length - 1, `${turns} turns`);
  });

  test('apisOf reads each audience once, and yields to the event loop after each', async () => {
    const turns = await turnsOf(async () => {
      const twice = [...audiences, ...audiences, 'https://nobody.test'];
      const found = await apisOf(
        { store: fixture.store, settings: { managementTokenSeconds: 3600, plainHttp } },
        fixture.tenant,
        twice,
      );
      assert.deepEqual(
        [...found.values()].map((api) => api?.id),
        [...ids, undefined],
      );
    });
    assert.ok(turns >= ids.length, `${turns} turns`);
  });
});
