import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { codesMax, createCauseCounter, joinCauses, noCauses } from '../../src/alerting/causes.ts';

describe('createCauseCounter', () => {
  test('600 codes: the most frequent are listed, and the rest is summed up', () => {
    const counter = createCauseCounter();
    for (let status = 0; status < 600; status++) {
      counter.add(`http_${status}`, status, String(status));
    }
    const { codes, others } = counter.causes();
    assert.equal(codes.length, codesMax);
    assert.deepEqual(codes[0], { code: 'http_599', count: 599, sample: '599' });
    const sum = codes.reduce((all, { count }) => all + count, 0);
    assert.equal(sum + others, (599 * 600) / 2);
  });

  test('the sample of a code is its first one, and unknown codes count as others', () => {
    const counter = createCauseCounter();
    counter.add('timeout', 2, undefined);
    counter.add('timeout', 1, 'timeout');
    counter.add('timeout', 1, 'later');
    counter.add(undefined, 3, '503');
    assert.deepEqual(counter.causes(), {
      codes: [{ code: 'timeout', count: 4, sample: 'timeout' }],
      others: 3,
    });
    assert.deepEqual(createCauseCounter().causes(), noCauses);
  });
});

test('joinCauses sums up codes and others, and prefers the newer sample', () => {
  const newer = { codes: [{ code: 'dns', count: 1, sample: 'new' }], others: 1 } as const;
  const older = {
    codes: [
      { code: 'http_503', count: 5 },
      { code: 'dns', count: 2, sample: 'old' },
    ],
    others: 2,
  } as const;
  assert.deepEqual(joinCauses(newer, older), {
    codes: [
      { code: 'http_503', count: 5 },
      { code: 'dns', count: 3, sample: 'new' },
    ],
    others: 3,
  });
});
