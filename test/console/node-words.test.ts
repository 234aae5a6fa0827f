import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Node, skewWords, warningsOf } from '../../src/console/node-words.ts';
import { type Setting, settingsWith } from '../../src/console/setting-search.ts';

const node: Node = { id: 'leat-1', streams: 2, lease_ms: 9758, clock_skew_ms: 0, is_self: true };

describe('warningsOf', () => {
  const tonesOf = (changes: Partial<Node>): string[] =>
    warningsOf({ ...node, ...changes }).map(({ tone }) => tone);

  test('a node with a lease and the right time has none', () => {
    assert.deepEqual(tonesOf({}), []);
    assert.deepEqual(tonesOf({ lease_ms: 3000, clock_skew_ms: -60_000 }), []);
  });

  test('a lease that is nearly over is a warning, one that has ended is worse', () => {
    assert.deepEqual(tonesOf({ lease_ms: 2999 }), ['warn']);
    assert.deepEqual(tonesOf({ lease_ms: 0 }), ['bad']);
  });

  test('a clock is wrong beyond a minute, ahead or late', () => {
    assert.deepEqual(tonesOf({ clock_skew_ms: 60_001 }), ['bad']);
    const [, { text } = { text: '' }] = warningsOf({
      ...node,
      lease_ms: 1,
      clock_skew_ms: -90_000,
    });
    assert.match(text, /^Its clock is 2\u2009min late/);
  });
});

test('skewWords: says how far a clock is ahead or late', () => {
  assert.deepEqual([0, 12, -1500].map(skewWords), ['none', '12\u2009ms ahead', '1.5\u2009s late']);
});

test('settingsWith: finds all words in name or meaning, changed settings first', () => {
  const setting = (name: string, meaning: string, isDefault: boolean): Setting => ({
    name,
    meaning,
    value: '1',
    default: '2',
    is_default: isDefault,
  });
  const settings = [
    setting('LEAT_PORT', 'port to listen on', true),
    setting('LEAT_HOST', 'address to listen on', false),
    setting('LEAT_STORE', 'where data are', false),
  ];
  const namesOf = (text: string) => settingsWith(settings, text).map(({ name }) => name);
  assert.deepEqual(namesOf(''), ['LEAT_HOST', 'LEAT_STORE', 'LEAT_PORT']);
  assert.deepEqual(namesOf(' Listen leat_ '), ['LEAT_HOST', 'LEAT_PORT']);
  assert.deepEqual(namesOf('nothing'), []);
});
