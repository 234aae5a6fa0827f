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
  disabledAt: undefined,
};

/** What looks tell one after the other, in short. */
function tell(...alertState: readonly (readonly Partial<StreamHealth>[])[]): string[][] {
  let state = initialState;
  return alertState.map((streams, index) => {
    const look = lookAt(index, streams);
    const decided = evaluate(state, look, limits);
    // As it is kept.
    state = JSON.parse(JSON.stringify(decided.state)) as NotifiedState;
    return decided.alerts.map(brief);
  });
}

function lookAt(at: number, streams: readonly Partial<StreamHealth>[]): Snapshot {
  return { tenant: 'main', at, streams: streams.map((stream) => ({ ...calm, ...stream })) };
}

function brief({ kind, stream, newFailures, percent }: StreamAlert): string {
  const told = kind === 'delivery_failures' ? newFailures : percent;
  return [stream.id, kind, ...(told === undefined ? [] : [told])].join(' ');
}

describe('new failures', () => {
  test('are told once for each stream that has some', () => {
    const told = tell([
      { id: 'est_1', newFailures: 12, total: 340, consecutive: 12 },
      { id: 'est_2', newFailures: 0, total: 7 },
      { id: 'est_3', newFailures: 1, total: 1 },
    ]);
    assert.deepEqual(told, [['est_1 delivery_failures 12', 'est_3 delivery_failures 1']]);
  });

  test('carry all that an alert says', () => {
    const look = lookAt(5, [
      { newFailures: 12, total: 340, consecutive: 12, lastError: 'timeout' },
    ]);
    assert.deepEqual(evaluate(initialState, look, limits).alerts, [
      {
        kind: 'delivery_failures',
        tenant: 'main',
        stream: { id: 'est_1', name: 'crm' },
        newFailures: 12,
        total: 340,
        consecutive: 12,
        lastError: 'timeout',
        limits,
        at: 5,
      },
    ]);
  });

  test('that were told before are not told again', () => {
    const [first, second] = tell([{ newFailures: 2, total: 2 }], [{ total: 2, consecutive: 2 }]);
    assert.deepEqual([first, second], [['est_1 delivery_failures 2'], []]);
  });
});

describe('an automatic disabling', () => {
  test('is told once, and the next one again', () => {
    const disabled = { status: 'disabled', total: 7 } as const;
    const told = tell(
      [{ ...disabled, disabledAt: 100 }],
      [{ ...disabled, disabledAt: 100 }],
      [{ status: 'enabled', total: 7 }],
      [{ ...disabled, disabledAt: 200 }],
      [{ ...disabled, disabledAt: undefined }],
      [{ ...disabled, disabledAt: 200 }],
    );
    const once = ['est_1 stream_disabled'];
    assert.deepEqual(told, [once, [], [], once, [], []]);
  });
});

describe('a limit that comes near', () => {
  const near = (percent: number): string[] => [`est_1 threshold_near ${percent}`];

  test('is told at 50, 70 and 90 percent, once each', () => {
    const totals = [2499, 2500, 2600, 3499, 3500, 4499, 4500, 4999, 5000];
    const told = tell(...totals.map((total) => [{ total }]));
    assert.deepEqual(told, [[], near(50), [], [], near(70), [], near(90), [], []]);
  });

  test('is told by the highest step when several are passed in one look', () => {
    assert.deepEqual(tell([{ total: 4700 }], [{ total: 4800 }]), [near(90), []]);
    assert.deepEqual(tell([{ consecutive: 350, total: 2500 }]), [near(70)]);
  });

  test('is told for each of the two counters', () => {
    const told = tell(
      [{ consecutive: 250 }],
      [{ consecutive: 250, total: 2500 }],
      [{ consecutive: 450, total: 2500 }],
    );
    assert.deepEqual(told, [near(50), near(50), near(90)]);
  });

  test('is told again after the counter fell back, also when it was out of trouble', () => {
    assert.deepEqual(tell([{ consecutive: 300 }], [{ consecutive: 0 }], [{ consecutive: 300 }]), [
      near(50),
      [],
      near(50),
    ]);
    assert.deepEqual(tell([{ consecutive: 300 }], [], [{ consecutive: 300 }]), [
      near(50),
      [],
      near(50),
    ]);
    const told = tell([{ total: 4600 }], [{ total: 3300 }], [{ total: 3600 }], [{ total: 4500 }]);
    // 3300 is 66 percent: not clearly under 70 percent, so that step stays told.
    assert.deepEqual(told, [near(90), [], [], near(90)]);
  });

  test('is told once while the counter goes up and down around a step', () => {
    const totals = [2500, 2499, 2500, 2400, 2501, 2251, 2520];
    const told = tell(...totals.map((total) => [{ total }]));
    assert.deepEqual(told.flat(), near(50));
    assert.deepEqual(tell([{ total: 2500 }], [{ total: 2249 }], [{ total: 2500 }]).flat(), [
      ...near(50),
      ...near(50),
    ]);
  });

  test('is forgotten neither nor told where the counter cannot be seen', () => {
    const told = tell(
      [{ consecutive: 300 }],
      [{ consecutive: undefined, total: 1 }],
      [{ consecutive: 300 }],
    );
    assert.deepEqual(told, [near(50), [], []]);
  });
});

describe('whatever a stream goes through', () => {
  const counter = fc.nat(12);
  const alertState = fc.array(
    fc.uniqueArray(
      fc.record({
        id: fc.constantFrom('est_1', 'est_2', 'est_3'),
        total: counter,
        consecutive: fc.option(counter, { nil: undefined }),
        newFailures: fc.nat(3),
        disabledAt: fc.option(fc.nat(4), { nil: undefined }),
      }),
      { selector: ({ id }) => id },
    ),
    { maxLength: 30 },
  );
  const small = { consecutive: 10, total: 10 };

  /** Each look with what it told and what was kept after it. */
  function play(history: readonly (readonly Partial<StreamHealth>[])[]) {
    let state = initialState;
    return history.map((streams, at) => {
      const before = state;
      const look = lookAt(at, streams);
      const { alerts, state: after } = evaluate(state, look, small);
      state = after;
      return { before, look, alerts, after };
    });
  }

  test('a look tells each kind once for a stream, and of streams in trouble only', () => {
    fc.assert(
      fc.property(alertState, (history) => {
        for (const { look, alerts } of play(history)) {
          const keys = alerts.map(({ kind, stream }) => `${kind} ${stream.id}`);
          assert.equal(new Set(keys).size, keys.length);
          const seen = new Set(look.streams.map(({ id }) => id));
          assert.ok(alerts.every(({ stream }) => seen.has(stream.id)));
        }
      }),
    );
  });

  test('new failures are told exactly where there are some, and with their number', () => {
    fc.assert(
      fc.property(alertState, (history) => {
        for (const { look, alerts } of play(history)) {
          const told = alerts.filter(({ kind }) => kind === 'delivery_failures').map(brief);
          const wanted = look.streams.filter(({ newFailures }) => newFailures > 0);
          assert.deepEqual(
            told,
            wanted.map(({ id, newFailures }) => `${id} delivery_failures ${newFailures}`),
          );
        }
      }),
    );
  });

  test('a look that finds the same once more tells nothing of limits and disablings', () => {
    fc.assert(
      fc.property(alertState, (history) => {
        for (const { look, after } of play(history)) {
          const again = evaluate(after, look, small);
          assert.deepEqual(
            again.alerts.filter(({ kind }) => kind !== 'delivery_failures'),
            [],
          );
          assert.deepEqual(again.state, after);
        }
      }),
    );
  });

  test('between two alerts of one step the counter was clearly under it', () => {
    const totals = fc.array(fc.nat(1100), { maxLength: 60 });
    fc.assert(
      fc.property(totals, (history) => {
        let state = initialState;
        /** By step, the lowest value since the step was told last. */
        const lowest = new Map<number, number>();
        for (const total of history) {
          const look = lookAt(0, [{ total }]);
          const decided = evaluate(state, look, { consecutive: 1, total: 1000 });
          for (const [step, low] of lowest) lowest.set(step, Math.min(low, total));
          const percent = decided.alerts[0]?.percent;
          if (percent !== undefined) {
            assert.ok(total >= percent * 10, `${total} told as ${percent}`);
            const low = lowest.get(percent) ?? -1;
            assert.ok(low < (percent - 5) * 10, `${percent} told twice, but never under ${low}`);
            lowest.set(percent, total);
          }
          state = decided.state;
        }
      }),
    );
  });

  test('what is kept of a stream without trouble is nothing', () => {
    fc.assert(
      fc.property(alertState, (history) => {
        const quiet = [...history, []];
        assert.deepEqual(play(quiet).at(-1)?.after, initialState);
      }),
    );
  });
});
