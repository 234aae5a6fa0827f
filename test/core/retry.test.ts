import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { decide, type AttemptResult, type Decision } from '../../src/core/retry.ts';

const now = Date.UTC(2026, 2, 1, 9, 30, 0);
const retryDelaysMs = [1000, 2000, 4000];
const rules = {
  retryDelaysMs,
  retry4xx: [408, 429],
  retryAfterMaxMs: 60_000,
  now,
};
/** A schedule that adds nothing to what the receiver requests. */
const withoutDelay = { ...rules, retryDelaysMs: [0] };

function responseOf(status: number, text = '', retryAfter?: string): AttemptResult {
  return { kind: 'response', status, text, retryAfter };
}

describe('decide', () => {
  test('any 2xx is delivered', () => {
    for (let status = 200; status < 300; status++) {
      const decision = decide(responseOf(status, 'ok'), 1, rules);
      assert.deepEqual(decision, { result: 'delivered', status });
    }
  });

  test('any 3xx, and any 4xx that is not listed, fails at once', () => {
    for (let status = 300; status < 500; status++) {
      const result = [408, 429].includes(status) ? 'retry' : 'failed';
      assert.equal(decide(responseOf(status), 1, rules).result, result, String(status));
    }
    const failed = { result: 'failed', status: 404, error: '404 - gone fishing' };
    assert.deepEqual(decide(responseOf(404, 'gone fishing'), 1, rules), failed);
  });

  test('a 4xx is retried exactly when the operator lists it, other statuses are not affected', () => {
    const resultWith = (status: number, retry4xx: number[]): Decision['result'] =>
      decide(responseOf(status), 1, { ...rules, retry4xx }).result;
    assert.equal(resultWith(404, [404]), 'retry');
    assert.equal(resultWith(429, []), 'failed');
    assert.equal(resultWith(301, [301]), 'failed');
  });

  test('410 says that the receiver is gone, unless the operator lists it', () => {
    const gone = { result: 'failed', status: 410, error: '410', isGone: true };
    for (const attempt of [1, 4]) assert.deepEqual(decide(responseOf(410), attempt, rules), gone);
    const listing = { ...rules, retry4xx: [410] };
    assert.equal(decide(responseOf(410), 3, listing).result, 'retry');
    const exhausted = { result: 'failed', status: 410, error: '410' };
    assert.deepEqual(decide(responseOf(410), 4, listing), exhausted);
  });

  test('any 5xx, and any number that is no status, is retried', () => {
    for (const status of [500, 501, 503, 511, 599, 600, 999]) {
      assert.equal(decide(responseOf(status), 1, rules).result, 'retry', String(status));
    }
  });

  test('a transport error is retried, with the cause and the detail as its message', () => {
    const causes = [
      'dns',
      'refused',
      'reset',
      'tls',
      'protocol',
      'timeout',
      'authorization',
      'cancelled',
    ] as const;
    for (const cause of causes) {
      assert.deepEqual(decide({ kind: 'error', cause, detail: undefined }, 1, rules), {
        result: 'retry',
        status: undefined,
        error: cause,
        delayMs: 1000,
      });
      const detailed = decide({ kind: 'error', cause, detail: 'why' }, 1, rules);
      assert.equal(detailed.result === 'retry' && detailed.error, `${cause}: why`);
    }
  });

  test('a blocked address fails at once', () => {
    const detail = '127.0.0.1 (LEAT_EGRESS_ALLOW)';
    assert.deepEqual(decide({ kind: 'error', cause: 'blocked address', detail }, 1, rules), {
      result: 'failed',
      status: undefined,
      error: 'blocked address: 127.0.0.1 (LEAT_EGRESS_ALLOW)',
    });
  });

  test('the error message is the status and the text, or the status alone', () => {
    const error = (result: AttemptResult): string | undefined => {
      const decision = decide(result, 1, rules);
      return decision.result === 'delivered' ? undefined : decision.error;
    };
    assert.equal(error(responseOf(503, 'busy')), '503 - busy');
    assert.equal(error(responseOf(503)), '503');
  });
});

describe('Retry-After', () => {
  const wait = (retryAfter: string | undefined, at = now): number => {
    const decision = decide(responseOf(503, '', retryAfter), 1, { ...withoutDelay, now: at });
    return decision.result === 'retry' ? decision.delayMs : -1;
  };
  const cases: [value: string | undefined, waitMs: number][] = [
    [undefined, 0],
    ['', 0],
    ['0', 0],
    ['7', 7000],
    [' 7 ', 7000],
    ['007', 7000],
    ['60', 60_000],
    ['61', 60_000],
    ['99999999999999999999999999', 60_000],
    ['-1', 0],
    ['1.5', 0],
    ['1e1', 0],
    ['0x10', 0],
    ['7 seconds', 0],
    ['7, 8', 0],
    ['soon', 0],
    ['Infinity', 0],
    ['Sun, 01 Mar 2026 09:30:05 GMT', 5000],
    ['Sunday, 01-Mar-26 09:30:05 GMT', 5000],
    ['Sun Mar  1 09:30:05 2026', 5000],
    ['Sun, 01 Mar 2026 09:29:00 GMT', 0],
    ['Sun, 01 Mar 2027 09:30:05 GMT', 60_000],
    ['Sunday, 01-Mar-27 09:30:05 GMT', 60_000],
    ['Tuesday, 01-Mar-77 09:30:05 GMT', 0],
    ['Sun, 06 Nov 1994 08:49:37 GMT', 0],
    ['2026-03-01T09:30:05.000Z', 0],
    ['Sun, 01 Mar 2026 09:30:05', 0],
    ['Sun, 01 Mar 2026 09:30:05 +0100', 0],
    ['Sun, 01 Foo 2026 09:30:05 GMT', 0],
    ['Sun, 1 Mar 2026 09:30:05 GMT', 0],
    ['01 Mar 2026 09:30:05 GMT', 0],
  ];
  for (const [value, waitMs] of cases) {
    test(`${JSON.stringify(value)} requests a wait of ${waitMs} ms`, () => {
      assert.equal(wait(value), waitMs);
    });
  }

  test('a year of two digits is the one nearest to now', () => {
    const newYearsEve = Date.UTC(2099, 11, 31, 23, 59, 58);
    assert.equal(wait('Thursday, 31-Dec-99 23:59:59 GMT', newYearsEve), 1000);
    assert.equal(wait('Friday, 01-Jan-00 00:00:00 GMT', newYearsEve), 2000);
    assert.equal(wait('Thursday, 31-Dec-99 23:59:59 GMT', newYearsEve + 3000), 0);
  });

  test('any value is a wait of 0 to 60 s', () => {
    const value = fc.oneof(
      fc.string(),
      fc.integer().map(String),
      fc.bigInt().map(String),
      fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
    );
    fc.assert(
      fc.property(value, fc.integer({ min: 0, max: 4e12 }), (text, at) => {
        const waitMs = wait(text, at);
        assert.ok(waitMs >= 0 && waitMs <= 60_000, `${text}: ${waitMs}`);
      }),
    );
  });

  test('a date is a wait until then', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 4_000_000_000 }),
        fc.integer({ min: 0, max: 60 }),
        (at, s) => {
          const date = new Date((at + s) * 1000).toUTCString();
          assert.equal(wait(date, at * 1000), s * 1000);
        },
      ),
    );
  });

  test('it has no effect on a response that is not retried', () => {
    const decision = decide(responseOf(404, '', '7'), 1, rules);
    assert.deepEqual(decision, { result: 'failed', status: 404, error: '404' });
  });
});

describe('the retry schedule', () => {
  const busy = responseOf(503);

  test('attempts follow after 1, 2 and 4 s, then the delivery has failed', () => {
    const decisions = [1, 2, 3, 4].map((attempt) => decide(busy, attempt, rules));
    assert.deepEqual(decisions, [
      { result: 'retry', status: 503, error: '503', delayMs: 1000 },
      { result: 'retry', status: 503, error: '503', delayMs: 2000 },
      { result: 'retry', status: 503, error: '503', delayMs: 4000 },
      { result: 'failed', status: 503, error: '503' },
    ]);
  });

  test('the retry schedule without delays, or with a status that is not retried, the first attempt is the last', () => {
    const failed = { result: 'failed', status: 503, error: '503' };
    assert.deepEqual(decide(busy, 1, { ...rules, retryDelaysMs: [] }), failed);
    const notFound = { result: 'failed', status: 404, error: '404' };
    assert.deepEqual(decide(responseOf(404), 1, rules), notFound);
  });

  test('a 2xx is delivered on any attempt', () => {
    const decision = decide(responseOf(200), 4, rules);
    assert.deepEqual(decision, { result: 'delivered', status: 200 });
  });

  test('Retry-After lengthens a wait and never shortens it', () => {
    const waitMs = (seconds: number, attempt: number): number => {
      const decision = decide(responseOf(503, '', String(seconds)), attempt, rules);
      return decision.result === 'retry' ? decision.delayMs : -1;
    };
    assert.equal(waitMs(3, 1), 3000);
    assert.equal(waitMs(3, 3), 4000);
    assert.equal(waitMs(60, 4), -1, 'no attempt more than the schedule has');
    fc.assert(
      fc.property(fc.nat(60), fc.integer({ min: 1, max: 3 }), (seconds, attempt) => {
        const delayMs = retryDelaysMs[attempt - 1] ?? 0;
        assert.equal(waitMs(seconds, attempt), Math.max(delayMs, seconds * 1000));
      }),
    );
  });

  test('a cycle has one attempt more than there are delays', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(10_000), { maxLength: 20 }), (delays) => {
        let attempt = 1;
        const withDelays = { ...rules, retryDelaysMs: delays };
        while (decide(busy, attempt, withDelays).result === 'retry') attempt++;
        assert.equal(attempt, delays.length + 1);
      }),
    );
  });
});
