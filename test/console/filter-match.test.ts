import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { matcherOf } from '../../src/console/filter-match.ts';

const event = JSON.stringify({ type: 'order.paid', data: { object: { n: 5, tags: ['a'] } } });

describe('matcherOf', () => {
  const cases: readonly (readonly [condition: string, isMatching: boolean])[] = [
    ['{"data.object.n": {"$gte": 5}}', true],
    ['{"data.object.n": "5"}', false],
    ['{"data.object.tags": "a", "type": {"$startsWith": "order."}}', true],
    ['{"$or": [{"data.object.n": 1}, {"data.object.missing": {"$exists": false}}]}', true],
  ];
  for (const [condition, isMatching] of cases) {
    test(`${condition}: ${isMatching}`, () => {
      const matcher = matcherOf(condition);
      assert.ok('matches' in matcher);
      assert.equal(matcher.matches(event), isMatching);
    });
  }

  test('says what is wrong with a condition, and where', () => {
    assert.deepEqual(matcherOf('{'), { problem: 'The condition on payloads is not JSON.' });
    const problem = matcherOf('{"data.a": {"$regex": "x"}}');
    assert.match(
      'problem' in problem ? problem.problem : '',
      /^data\.a\.\$regex: Unknown operator/,
    );
    assert.match(JSON.stringify(matcherOf('[]')), /Expected a condition/);
  });
});
