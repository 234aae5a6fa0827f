import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StreamAlert } from '../../src/alerting/alert.ts';
import { withOpenCauses } from '../../src/alerting/failure-summary.ts';
import { exampleAlert } from '../helpers/alerts.ts';
import { createFixture, failed, type Fixture } from '../store/contract/fixture.ts';
import { postgres, sqliteMemory } from '../store/engines.ts';

/** Creates a stream with a failure of each of these statuses; returns an alert about it. */
async function alertAfter(fixture: Fixture, statuses: readonly number[]): Promise<StreamAlert> {
  const stream = await fixture.addStream();
  const events = await fixture.publish(...statuses.map(() => 'user.created'));
  const owned = await fixture.own(stream);
  const outcomes = events.map((event, index) =>
    failed(event, { status: statuses[index], error: `${statuses[index]} - secret` }),
  );
  await fixture.settle(owned, { cursor: events.at(-1)?.offset ?? 0, outcomes });
  const { total } = await fixture.health(stream);
  return { ...exampleAlert, kind: 'threshold_near', stream, total };
}

for (const engine of [sqliteMemory, postgres]) {
  describe(`${engine.name}: withOpenCauses`, () => {
    test('more codes than are listed: listed and other failures are all open ones', async (t) => {
      const fixture = await createFixture(engine, t);
      const many = Array.from({ length: 40 }, (_, index) => 500 + index);
      const alert = await alertAfter(fixture, [...many, 503]);
      const { groups } = fixture.store.failures;
      const [shown] = await withOpenCauses(groups, fixture.tenant, [alert], async () => undefined);
      const { codes = [], others = 0 } = shown?.causes ?? {};
      assert.deepEqual(codes[0], { code: 'http_503', count: 2, sample: '503' });
      assert.equal(
        codes.reduce((sum, { count }) => sum + count, others),
        41,
      );
    });
  });
}
