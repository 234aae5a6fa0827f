import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isStreamAlert, type StreamAlert, type SystemAlert } from '../../src/alerting/alert.ts';
import { addToOutbox, type Outbox, outboxMax } from '../../src/alerting/outbox.ts';

function alertOf(id: string, over: Partial<StreamAlert> = {}): StreamAlert {
  return {
    kind: 'delivery_failures',
    tenant: 'main',
    stream: { id, name: id },
    newFailures: 1,
    total: 1,
    consecutive: 1,
    limits: { consecutive: 500, total: 5000 },
    at: 0,
    ...over,
  };
}

describe('addToOutbox', () => {
  test('queues an alert for every channel, oldest first', () => {
    const first = addToOutbox({}, [alertOf('a')], ['webhook', 'email']).outbox;
    const { outbox } = addToOutbox(first, [alertOf('b')], ['webhook', 'email']);
    const both = [alertOf('a'), alertOf('b')];
    assert.deepEqual(outbox, { webhook: both, email: both });
  });

  test('addToOutbox merges the failures of a stream into one alert, with their sum and the newest counters', () => {
    const older = { webhook: [alertOf('a', { newFailures: 3, total: 3, at: 1 }), alertOf('b')] };
    const newer = alertOf('a', { newFailures: 2, total: 5, lastError: '500', at: 2 });
    const { outbox } = addToOutbox(older, [newer], ['webhook']);
    assert.deepEqual(outbox.webhook, [alertOf('b'), { ...newer, newFailures: 5 }]);
  });

  test('addToOutbox sums up the error codes of merged alerts, also with those of an older version', () => {
    const causesOf = (count: number) => ({ codes: [{ code: 'dns', count }], others: 1 }) as const;
    const older = {
      webhook: [alertOf('a', { causes: causesOf(3) }), alertOf('b', { newFailures: 7 })],
    };
    const newer = ['a', 'b'].map((id) => alertOf(id, { causes: causesOf(2) }));
    const { outbox } = addToOutbox(older, newer, ['webhook']);
    assert.deepEqual(
      (outbox.webhook ?? []).filter(isStreamAlert).map(({ causes }) => causes),
      [
        { codes: [{ code: 'dns', count: 5 }], others: 2 },
        { codes: [{ code: 'dns', count: 2 }], others: 8 },
      ],
    );
  });

  test('addToOutbox keeps each automatic disabling, and only the last step of a limit', () => {
    const disabled = (at: number): StreamAlert => alertOf('a', { kind: 'stream_disabled', at });
    const near = (percent: number): StreamAlert =>
      alertOf('a', { kind: 'threshold_near', percent });
    const older = { log: [disabled(1), near(50)] };
    const { outbox } = addToOutbox(older, [disabled(2), near(90)], ['log']);
    assert.deepEqual(outbox.log, [disabled(1), disabled(2), near(90)]);
  });

  test('addToOutbox drops and counts the oldest beyond the limit', () => {
    const alerts = Array.from({ length: outboxMax + 2 }, (_, index) => alertOf(String(index)));
    const { outbox, dropped } = addToOutbox({}, alerts, ['webhook']);
    assert.equal(dropped, 2);
    assert.equal(outbox.webhook?.length, outboxMax);
    assert.deepEqual(outbox.webhook[0], alertOf('2'));
  });

  test('addToOutbox drops and counts the queue of a channel that is no longer set', () => {
    const outbox: Outbox = { webhook: [alertOf('a')], email: [alertOf('b')] };
    const result = addToOutbox(outbox, [], ['email']);
    assert.deepEqual(result, { outbox: { email: [alertOf('b')] }, dropped: 1 });
  });

  test('addToOutbox keeps the sum of failures, for random checks and streams', () => {
    const streams = fc.constantFrom('a', 'b', 'c');
    const checks = fc.array(fc.array(fc.record({ id: streams, newFailures: fc.nat(9) })));
    fc.assert(
      fc.property(checks, (history) => {
        let outbox: Outbox = {};
        for (const check of history) {
          const alerts = check.map(({ id, newFailures }) => alertOf(id, { newFailures }));
          ({ outbox } = addToOutbox(outbox, alerts, ['webhook']));
        }
        const queue = (outbox.webhook ?? []).filter(isStreamAlert);
        assert.equal(sum(queue), sum(history.flat()));
        assert.equal(new Set(queue.map(({ stream }) => stream.id)).size, queue.length);
      }),
    );
  });
});

test('a queued condition is replaced by a later alert with the same key', () => {
  const skewOf = (key: string, at: number): SystemAlert => ({
    kind: 'clock_skew',
    tenant: 'main',
    sentence: 'The clock is wrong.',
    fields: { skew_seconds: at },
    key,
    at,
  });
  const older: Outbox = { webhook: [skewOf('one', 1), alertOf('a'), skewOf('other', 1)] };
  const { outbox } = addToOutbox(older, [skewOf('one', 2)], ['webhook']);
  assert.deepEqual(outbox.webhook, [alertOf('a'), skewOf('other', 1), skewOf('one', 2)]);
});

function sum(items: readonly { readonly newFailures: number }[]): number {
  return items.reduce((total, { newFailures }) => total + newFailures, 0);
}
