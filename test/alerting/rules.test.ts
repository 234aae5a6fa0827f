import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type NotifiedState,
  evaluate,
  type Snapshot,
  initialState,
  type StreamHealth,
} from '../../src/alerting/rules.ts';
import { noCauses } from '../../src/alerting/causes.ts';
import type { StreamAlert } from '../../src/alerting/alert.ts';

const limits = { consecutive: 500, total: 5000 };
const calm: StreamHealth = {
  id: 'est_1',
  name: 'crm',
  status: 'enabled',
  total: 0,
  consecutive: 0,
  newFailures: 0,
  lastError: undefined,
  causes: noCauses,
  disabledAt: undefined,
};

/** Evaluates one snapshot after the other; returns the alerts in short form. */
function evaluateAll(...snapshots: readonly (readonly Partial<StreamHealth>[])[]): string[][] {
  let state = initialState;
  return snapshots.map((streams, index) => {
    const result = evaluate(state, snapshotAt(index, streams), limits);
    // As it is stored.
    state = JSON.parse(JSON.stringify(result.state)) as NotifiedState;
    return result.alerts.map(brief);
  });
}

function snapshotAt(at: number, streams: readonly Partial<StreamHealth>[]): Snapshot {
  return { tenant: 'main', at, streams: streams.map((stream) => ({ ...calm, ...stream })) };
}

function brief({ kind, stream, newFailures, percent }: StreamAlert): string {
  const number = kind === 'delivery_failures' ? newFailures : percent;
  return [stream.id, kind, ...(number === undefined ? [] : [number])].join(' ');
}

describe('an alert about new failures', () => {
  test('delivery_failures: one alert for each stream that has new failures', () => {
    const alerts = evaluateAll([
      { id: 'est_1', newFailures: 12, total: 340, consecutive: 12 },
      { id: 'est_2', newFailures: 0, total: 7 },
      { id: 'est_3', newFailures: 1, total: 1 },
    ]);
    assert.deepEqual(alerts, [['est_1 delivery_failures 12', 'est_3 delivery_failures 1']]);
  });

  test('delivery_failures: the alert has all fields of the stream', () => {
    const causes = { codes: [{ code: 'timeout', count: 12 }], others: 0 } as const;
    const snapshot = snapshotAt(5, [
      { newFailures: 12, total: 340, consecutive: 12, lastError: 'timeout', causes },
    ]);
    assert.deepEqual(evaluate(initialState, snapshot, limits).alerts, [
      {
        kind: 'delivery_failures',
        tenant: 'main',
        stream: { id: 'est_1', name: 'crm' },
        newFailures: 12,
        total: 340,
        consecutive: 12,
        lastError: 'timeout',
        causes,
        limits,
        at: 5,
      },
    ]);
  });

  test('delivery_failures: no alert without new failures', () => {
    const [first, second] = evaluateAll(
      [{ newFailures: 2, total: 2 }],
      [{ total: 2, consecutive: 2 }],
    );
    assert.deepEqual([first, second], [['est_1 delivery_failures 2'], []]);
  });
});

describe('an alert about an automatic disabling', () => {
  test('stream_disabled: one alert for each disabling', () => {
    const disabled = { status: 'disabled', total: 7 } as const;
    const alerts = evaluateAll(
      [{ ...disabled, disabledAt: 100 }],
      [{ ...disabled, disabledAt: 100 }],
      [{ status: 'enabled', total: 7 }],
      [{ ...disabled, disabledAt: 200 }],
      [{ ...disabled, disabledAt: undefined }],
      [{ ...disabled, disabledAt: 200 }],
    );
    const once = ['est_1 stream_disabled'];
    assert.deepEqual(alerts, [once, [], [], once, [], []]);
  });
});

describe('alerts of a check in which a stream was disabled', () => {
  const once = ['est_1 stream_disabled'];

  test('stream_disabled: it is the only alert, with the new failures', () => {
    const disabled = { status: 'disabled', total: 500, consecutive: 500, disabledAt: 100 } as const;
    const alerts = evaluateAll([{ ...disabled, newFailures: 500 }], [disabled]);
    assert.deepEqual(alerts, [once, []]);
    const snapshot = snapshotAt(5, [{ ...disabled, newFailures: 500, disabledReason: 'gone' }]);
    const [alert] = evaluate(initialState, snapshot, limits).alerts;
    assert.deepEqual([alert?.newFailures, alert?.reason], [500, 'gone']);
  });

  test('threshold_near: none for a stream that is disabled', () => {
    const alerts = evaluateAll([{ status: 'disabled', total: 4800, consecutive: 500 }]);
    assert.deepEqual(alerts, [[]]);
  });

  test('threshold_near: a stream that is enabled again is warned about at the next check', () => {
    const enabled = { status: 'enabled', total: 4600, consecutive: 0 } as const;
    const alerts = evaluateAll([{ ...enabled, disabledAt: 100, newFailures: 500 }], [enabled]);
    assert.deepEqual(alerts, [once, ['est_1 threshold_near 90']]);
  });
});

describe('an alert about a limit that is near', () => {
  const near = (percent: number): string[] => [`est_1 threshold_near ${percent}`];

  test('threshold_near: one alert at 50, 70 and 90 percent each', () => {
    const totals = [2499, 2500, 2600, 3499, 3500, 4499, 4500, 4999, 5000];
    const alerts = evaluateAll(...totals.map((total) => [{ total }]));
    assert.deepEqual(alerts, [[], near(50), [], [], near(70), [], near(90), [], []]);
  });

  test('threshold_near: only the highest of several steps that are passed at one check', () => {
    assert.deepEqual(evaluateAll([{ total: 4700 }], [{ total: 4800 }]), [near(90), []]);
    assert.deepEqual(evaluateAll([{ consecutive: 350, total: 2500 }]), [near(70)]);
  });

  test('threshold_near: an alert for each of the two counters', () => {
    const alerts = evaluateAll(
      [{ consecutive: 250 }],
      [{ consecutive: 250, total: 2500 }],
      [{ consecutive: 450, total: 2500 }],
    );
    assert.deepEqual(alerts, [near(50), near(50), near(90)]);
  });

  test('threshold_near: another alert after the counter fell, also when the stream was healthy', () => {
    assert.deepEqual(
      evaluateAll([{ consecutive: 300 }], [{ consecutive: 0 }], [{ consecutive: 300 }]),
      [near(50), [], near(50)],
    );
    assert.deepEqual(evaluateAll([{ consecutive: 300 }], [], [{ consecutive: 300 }]), [
      near(50),
      [],
      near(50),
    ]);
    const alerts = evaluateAll(
      [{ total: 4600 }],
      [{ total: 3300 }],
      [{ total: 3600 }],
      [{ total: 4500 }],
    );
    // 3300 is 66 percent: not clearly below 70 percent, so that step stays reported.
    assert.deepEqual(alerts, [near(90), [], [], near(90)]);
  });

  test('threshold_near: one alert while the counter goes up and down around a step', () => {
    const totals = [2500, 2499, 2500, 2400, 2501, 2251, 2520];
    const alerts = evaluateAll(...totals.map((total) => [{ total }]));
    assert.deepEqual(alerts.flat(), near(50));
    assert.deepEqual(evaluateAll([{ total: 2500 }], [{ total: 2249 }], [{ total: 2500 }]).flat(), [
      ...near(50),
      ...near(50),
    ]);
  });
});

describe('evaluate with random snapshots', () => {
  const counter = fc.nat(12);
  const checks = fc.array(
    fc.uniqueArray(
      fc.record({
        id: fc.constantFrom('est_1', 'est_2', 'est_3'),
        status: fc.constantFrom('enabled', 'disabled'),
        total: counter,
        consecutive: counter,
        newFailures: fc.nat(3),
        disabledAt: fc.option(fc.nat(4), { nil: undefined }),
      }),
      { selector: ({ id }) => id },
    ),
    { maxLength: 30 },
  );
  const small = { consecutive: 10, total: 10 };

  /** Returns each snapshot with its alerts and the states before and after it. */
  function play(history: readonly (readonly Partial<StreamHealth>[])[]) {
    let state = initialState;
    return history.map((streams, at) => {
      const before = state;
      const snapshot = snapshotAt(at, streams);
      const { alerts, state: after } = evaluate(state, snapshot, small);
      state = after;
      return { before, snapshot, alerts, after };
    });
  }

  test('evaluate returns each kind once for a stream, and only for streams of the snapshot', () => {
    fc.assert(
      fc.property(checks, (history) => {
        for (const { snapshot, alerts } of play(history)) {
          const keys = alerts.map(({ kind, stream }) => `${kind} ${stream.id}`);
          assert.equal(new Set(keys).size, keys.length);
          const seen = new Set(snapshot.streams.map(({ id }) => id));
          assert.ok(alerts.every(({ stream }) => seen.has(stream.id)));
        }
      }),
    );
  });

  test('evaluate returns new failures with their number once, for exactly the streams that have some', () => {
    fc.assert(
      fc.property(checks, (history) => {
        for (const { snapshot, alerts } of play(history)) {
          const isNew = ({ newFailures }: { readonly newFailures: number }) => newFailures > 0;
          const found = alerts.filter(({ kind }) => kind !== 'threshold_near').filter(isNew);
          assert.deepEqual(
            found.map(({ stream, newFailures }) => [stream.id, newFailures]),
            snapshot.streams.filter(isNew).map(({ id, newFailures }) => [id, newFailures]),
          );
        }
      }),
    );
  });

  test('evaluate returns a disabling alone, and limits of enabled streams', () => {
    fc.assert(
      fc.property(checks, (history) => {
        for (const { snapshot, alerts } of play(history)) {
          for (const { id, status } of snapshot.streams) {
            const kinds = alerts.filter(({ stream }) => stream.id === id).map(({ kind }) => kind);
            if (kinds.includes('stream_disabled')) assert.deepEqual(kinds, ['stream_disabled']);
            if (kinds.includes('threshold_near')) assert.equal(status, 'enabled');
          }
        }
      }),
    );
  });

  test('evaluate returns no disablings for the same snapshot again, and no limits after that', () => {
    fc.assert(
      fc.property(checks, (history) => {
        for (const { snapshot, after } of play(history)) {
          const again = evaluate(after, snapshot, small);
          assert.ok(again.alerts.every(({ kind }) => kind !== 'stream_disabled'));
          const { alerts, state } = evaluate(again.state, snapshot, small);
          assert.ok(alerts.every(({ kind }) => kind === 'delivery_failures'));
          assert.deepEqual(state, again.state);
        }
      }),
    );
  });

  test('between two alerts of one step the counter was clearly below it', () => {
    const totals = fc.array(fc.nat(1100), { maxLength: 60 });
    fc.assert(
      fc.property(totals, (history) => {
        let state = initialState;
        /** By step, the lowest value since the step was reported last. */
        const lowest = new Map<number, number>();
        for (const total of history) {
          const result = evaluate(state, snapshotAt(0, [{ total }]), {
            consecutive: 1,
            total: 1000,
          });
          for (const [step, low] of lowest) lowest.set(step, Math.min(low, total));
          const percent = result.alerts[0]?.percent;
          if (percent !== undefined) {
            assert.ok(total >= percent * 10, `${total} reported as ${percent}`);
            const low = lowest.get(percent) ?? -1;
            assert.ok(
              low < (percent - 5) * 10,
              `${percent} reported twice, but never below ${low}`,
            );
            lowest.set(percent, total);
          }
          state = result.state;
        }
      }),
    );
  });

  test('evaluate remembers nothing of a healthy stream', () => {
    fc.assert(
      fc.property(checks, (history) => {
        const quiet = [...history, []];
        assert.deepEqual(play(quiet).at(-1)?.after, initialState);
      }),
    );
  });
});
