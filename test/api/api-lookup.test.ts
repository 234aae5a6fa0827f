import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { apisOf, audiencesOf } from '../../src/api/api-lookup.ts';
import { type AuthFixture, openAuthFixture, plainHttp } from '../auth/fixture.ts';

/** APIs of 1,000 scopes take 5 ms each, and the store in memory answers without a turn of the loop. */
describe('the APIs of a list are looked up', () => {
  const ids = Array.from({ length: 10 }, (_, n) => `api_${n}`);
  const audiences = ids.map((id) => `https://${id}.test`);
  let house: AuthFixture;

  before(async () => {
    house = await openAuthFixture();
    for (const id of ids) {
      await house.store.apis.create({
        tenant: house.tenant.id,
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
  after(() => house.close());

  /** Turns of the event loop that others have while it works. */
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

  test('by id, with a break after each', async () => {
    const turns = await turnsOf(async () => {
      const found = await audiencesOf(house, house.tenant, ids);
      assert.deepEqual(
        ids.map((id) => found.get(id)),
        audiences,
      );
    });
    assert.ok(turns >= ids.length - 1, `${turns} turns`);
  });

  test('by audience, each once and with a break after it', async () => {
    const turns = await turnsOf(async () => {
      const twice = [...audiences, ...audiences, 'https://nobody.test'];
      const found = await apisOf(
        { store: house.store, settings: { plainHttp } },
        house.tenant,
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
