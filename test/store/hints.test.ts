import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createHints } from '../../src/store/hints.ts';
import type { Hint } from '../../src/store/port/hints.ts';

const hint = (stream: string): Hint => ({ kind: 'stream', tenant: 1, stream });

const unexpected = (error: unknown): never => assert.fail(String(error));

describe('hints', () => {
  test('a listener that throws affects neither the command nor the other listeners', () => {
    const reported: unknown[] = [];
    const received: Hint[] = [];
    const hints = createHints({ report: (error) => reported.push(error) });
    const bug = new Error('a bug in a listener');
    hints.watch(() => {
      throw bug;
    });
    hints.watch((one) => received.push(one));
    hints.emit(hint('a'));
    hints.emit(hint('b'));
    assert.deepEqual(received, [hint('a'), hint('b')]);
    assert.deepEqual(reported, [bug, bug]);
  });

  test('every listener receives hints in the order of the commits, even when one of them commits', () => {
    const hints = createHints({ report: unexpected });
    const received: string[] = [];
    hints.watch((one) => {
      if (one.kind !== 'stream') return;
      received.push(`first ${one.stream}`);
      if (one.stream === 'a') hints.emit(hint('b'));
    });
    hints.watch((one) => one.kind === 'stream' && received.push(`second ${one.stream}`));
    hints.emit(hint('a'));
    assert.deepEqual(received, ['first a', 'second a', 'first b', 'second b']);
  });

  test('a function that watches twice and stops once still receives hints', () => {
    const hints = createHints({ report: unexpected });
    let count = 0;
    const listener = () => (count += 1);
    const stop = hints.watch(listener);
    hints.watch(listener);
    stop();
    stop();
    hints.emit(hint('a'));
    assert.equal(count, 1);
  });
});
