import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { rounds } from '../helpers/rounds.ts';
import { planOf, type Plan } from './plan.ts';
import { createMonotonicClock, holdingTimers } from './clocks.ts';
import { falseAlarms } from './false-alarms.ts';
import { play } from './play.ts';
import { regressions } from './regressions.ts';
import { playWithFault, search } from './search.ts';
import { shrink } from './shrink.ts';
import { historyTable } from './table.ts';
import { noFaults } from './simulation.ts';
import { createTimeline } from './timeline.ts';

/** Returns what a failing test prints. */
async function historyText(plan: Plan): Promise<string> {
  return `\n${historyTable(plan, await play(plan, { record: true }))}\n`;
}

describe('the engine under simulation', () => {
  const count = rounds({ few: 20, all: 1000 });
  test(
    `${count} histories keep every guarantee`,
    { tags: rounds({ few: [], all: ['long'] }) },
    async () => {
      const { histories, attempts, violation } = await search({ from: 0, to: count, threads: 2 });
      if (violation !== undefined) {
        const plan = planOf(violation.seed);
        const shrunk = await shrink(plan, async (candidate) => {
          const outcome = await play(candidate);
          return outcome.violation?.guarantee === violation.guarantee;
        });
        assert.fail(
          `${await historyText(shrunk)}\nAll of it: npm run simulate -- --seed ${violation.seed}`,
        );
      }
      assert.equal(histories, count);
      assert.ok(attempts > count, 'something happens in them');
    },
  );

  for (const { mistake, plan } of falseAlarms) {
    test(`the shortened history of a mistake of the oracle violates nothing: ${mistake}`, async () => {
      const outcome = await play(plan);
      assert.equal(outcome.violation, undefined, await historyText(plan));
    });
  }

  for (const { fault, plan, isRuledOut = false } of regressions) {
    test(`the shortened history of a fixed fault violates nothing: ${fault}`, async () => {
      const outcome = await play(plan);
      assert.equal(outcome.violation, undefined, await historyText(plan));
    });

    if (isRuledOut) continue;
    test(`the shortened history violates a guarantee when the fault is put back: ${fault}`, async () => {
      const { violation } = await playWithFault(plan, fault);
      assert.ok(violation, 'the history no longer leads to its fault');
    });
  }
});

test('a timer that is cancelled while its process is frozen does not run once that wakes', async () => {
  const timeline = createTimeline();
  const held: (() => void)[] = [];
  const after = holdingTimers(createMonotonicClock(timeline), (action) => held.push(action));
  const ran: string[] = [];
  const cancelled = after(10, () => ran.push('cancelled'));
  after(10, () => ran.push('kept'));
  await timeline.runTo(20);
  cancelled.cancel();
  for (const action of held) action();
  assert.deepEqual(ran, ['kept']);
});

describe('a history', () => {
  test('a history is the same each time it is played', { tags: ['long'] }, async () => {
    for (const seed of [1, 17, 99, 496, 646]) {
      const first = await play(planOf(seed), { record: true });
      const second = await play(planOf(seed), { record: true });
      assert.ok(first.history.length > 10);
      assert.deepEqual(second, first);
    }
  });

  test('a history can be read as a table', async () => {
    const plan: Plan = {
      ...planOf(17),
      nodes: 1,
      streams: [['a.made']],
      faultRates: noFaults,
      steps: [{ at: 20, do: 'publish', types: ['a.made'], repeats: false }],
    };
    const text = historyTable(plan, await play(plan, { record: true }));
    assert.match(text, /^Seed 17: 1 steps, 1 streams, 1 nodes\.\nFault rates: none\.\n/);
    assert.match(text, /\n {5}\d{2} {2}n1 +sends e2 to s1\n/);
    assert.match(text, /\nEvery guarantee held\.$/);
  });

  test('a history that fails is shortened to the steps that matter', async () => {
    const plan = planOf(17);
    const isNeeded = ({ do: action, at }: Plan['steps'][number]): boolean =>
      action === 'publish' && at === plan.steps.find((step) => step.do === 'publish')?.at;
    const shrunk = await shrink(plan, (candidate) =>
      Promise.resolve(
        candidate.steps.some(isNeeded) && candidate.faultRates.slow === plan.faultRates.slow,
      ),
    );
    assert.ok(plan.steps.length > 10);
    assert.equal(shrunk.steps.length, 1);
    assert.ok(shrunk.steps.every(isNeeded));
    assert.deepEqual([shrunk.nodes, shrunk.streams.length], [1, 1]);
  });
});
