import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { classify, decide, type PostResult, type Verdict } from '../../src/core/retry.ts';

const now = Date.UTC(2026, 2, 1, 9, 30, 0);
const rules = { retry4xx: [408, 429], secrets: ['topsecret'], now };
const delaysMs = [1000, 2000, 4000];

function answered(status: number, text = '', retryAfter?: string): PostResult {
  return { kind: 'answered', status, text, retryAfter };
}

describe('the result of an attempt', () => {
  test('is a delivery with any 2xx', () => {
    for (let status = 200; status < 300; status++) {
      assert.deepEqual(classify(answered(status, 'ok'), rules), { kind: 'delivered', status });
    }
  });

  test('is permanent with any 3xx, and with any 4xx that is not listed', () => {
    for (let status = 300; status < 500; status++) {
      const kind = [408, 429].includes(status) ? 'retryable' : 'permanent';
      assert.equal(classify(answered(status), rules).kind, kind, String(status));
    }
    const permanent = { kind: 'permanent', status: 404, message: '404 - gone fishing' };
    assert.deepEqual(classify(answered(404, 'gone fishing'), rules), permanent);
  });

  test('goes by the list of the operator for 4xx, and by nothing else', () => {
    assert.equal(classify(answered(404), { ...rules, retry4xx: [404] }).kind, 'retryable');
    assert.equal(classify(answered(429), { ...rules, retry4xx: [] }).kind, 'permanent');
    assert.equal(classify(answered(301), { ...rules, retry4xx: [301] }).kind, 'permanent');
  });

  test('is retryable with any 5xx, and with what is no status at all', () => {
    for (const status of [500, 501, 503, 511, 599, 600, 999]) {
      assert.equal(classify(answered(status), rules).kind, 'retryable', String(status));
    }
  });

  test('is retryable when the connection broke, in the words of the contract', () => {
    const causes = ['dns', 'refused', 'reset', 'tls', 'protocol', 'timeout', 'cancelled'] as const;
    for (const cause of causes) {
      assert.deepEqual(classify({ kind: 'broken', cause, detail: undefined }, rules), {
        kind: 'retryable',
        status: undefined,
        message: cause,
        retryAfterMs: 0,
      });
      const detailed = classify({ kind: 'broken', cause, detail: 'why' }, rules);
      assert.equal(detailed.kind === 'retryable' && detailed.message, `${cause}: why`);
    }
  });

  test('is permanent when the address is blocked', () => {
    const detail = '127.0.0.1 (LEAT_EGRESS_ALLOW)';
    assert.deepEqual(classify({ kind: 'broken', cause: 'blocked address', detail }, rules), {
      kind: 'permanent',
      status: undefined,
      message: 'blocked address: 127.0.0.1 (LEAT_EGRESS_ALLOW)',
    });
  });

  test('has a message of status and text, or of the status alone', () => {
    const message = (result: PostResult): string | undefined => {
      const verdict = classify(result, rules);
      return verdict.kind === 'delivered' ? undefined : verdict.message;
    };
    assert.equal(message(answered(503, 'busy')), '503 - busy');
    assert.equal(message(answered(503)), '503');
    assert.equal(message(answered(400, 'not topsecret')), '400 - not ***');
    assert.equal(
      message({ ...answered(503, 'token tops'), cut: true } as PostResult),
      '503 - token ***',
    );
    assert.equal(message(answered(503, 'token tops')), '503 - token tops');
  });

  test('keeps the status out of the redaction', () => {
    const verdict = classify(answered(503, 'code 503'), { ...rules, secrets: ['503'] });
    assert.equal(verdict.kind === 'retryable' && verdict.message, '503 - code ***');
  });
});

describe('Retry-After', () => {
  const wait = (retryAfter: string | undefined, at = now): number => {
    const verdict = classify(answered(503, '', retryAfter), { ...rules, now: at });
    return verdict.kind === 'retryable' ? verdict.retryAfterMs : -1;
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
    test(`${JSON.stringify(value)} asks for ${waitMs} ms`, () => {
      assert.equal(wait(value), waitMs);
    });
  }

  test('of two digits for the year is of the year nearest to now', () => {
    const newYearsEve = Date.UTC(2099, 11, 31, 23, 59, 58);
    assert.equal(wait('Thursday, 31-Dec-99 23:59:59 GMT', newYearsEve), 1000);
    assert.equal(wait('Friday, 01-Jan-00 00:00:00 GMT', newYearsEve), 2000);
    assert.equal(wait('Thursday, 31-Dec-99 23:59:59 GMT', newYearsEve + 3000), 0);
  });

  test('is a wait of 0 to 60 s, whatever it says', () => {
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

  test('with a date is the time until then', () => {
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

  test('counts on retried answers alone', () => {
    const verdict = classify(answered(404, '', '7'), rules);
    assert.deepEqual(verdict, { kind: 'permanent', status: 404, message: '404' });
  });
});

describe('the decision', () => {
  const retryable: Verdict = { kind: 'retryable', status: 503, message: '503', retryAfterMs: 0 };

  test('follows the schedule: after 1, 2 and 4 s, then it has failed', () => {
    const decisions = [1, 2, 3, 4].map((attempt) => decide(retryable, attempt, delaysMs));
    assert.deepEqual(decisions, [
      { kind: 'retry', waitMs: 1000, message: '503' },
      { kind: 'retry', waitMs: 2000, message: '503' },
      { kind: 'retry', waitMs: 4000, message: '503' },
      { kind: 'fail', message: '503' },
    ]);
  });

  test('is to fail at once when there are no delays or the verdict is permanent', () => {
    assert.deepEqual(decide(retryable, 1, []), { kind: 'fail', message: '503' });
    const permanent: Verdict = { kind: 'permanent', status: 404, message: '404' };
    assert.deepEqual(decide(permanent, 1, delaysMs), { kind: 'fail', message: '404' });
  });

  test('is delivered on any attempt', () => {
    assert.deepEqual(decide({ kind: 'delivered', status: 200 }, 4, delaysMs), {
      kind: 'delivered',
    });
  });

  test('is lengthened by what the receiver asked for, never shortened', () => {
    const asking = (retryAfterMs: number): Verdict => ({ ...retryable, retryAfterMs });
    const waitMs = (verdict: Verdict, attempt: number): number => {
      const decision = decide(verdict, attempt, delaysMs);
      return decision.kind === 'retry' ? decision.waitMs : -1;
    };
    assert.equal(waitMs(asking(3000), 1), 3000);
    assert.equal(waitMs(asking(3000), 3), 4000);
    assert.equal(waitMs(asking(60_000), 4), -1, 'no attempt more than the schedule has');
    fc.assert(
      fc.property(fc.nat(60_000), fc.integer({ min: 1, max: 3 }), (retryAfterMs, attempt) => {
        const delayMs = delaysMs[attempt - 1] ?? 0;
        assert.equal(waitMs(asking(retryAfterMs), attempt), Math.max(delayMs, retryAfterMs));
      }),
    );
  });

  test('makes as many attempts as there are delays, and one', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(10_000), { maxLength: 20 }), (delays) => {
        let attempt = 1;
        while (decide(retryable, attempt, delays).kind === 'retry') attempt++;
        assert.equal(attempt, delays.length + 1);
      }),
    );
  });
});
