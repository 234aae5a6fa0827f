import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { instantOf } from '../../src/cli/time.ts';

const now = Date.parse('2026-03-01T10:00:00.000Z');

describe('instantOf', () => {
  const cases: [string, string | undefined][] = [
    ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00.000Z'],
    ['2026-03-01T10:30:00+01:00', '2026-03-01T09:30:00.000Z'],
    ['2026-03-01', '2026-03-01T00:00:00.000Z'],
    ['90s', '2026-03-01T09:58:30.000Z'],
    ['15m', '2026-03-01T09:45:00.000Z'],
    ['2h', '2026-03-01T08:00:00.000Z'],
    ['1d', '2026-02-28T10:00:00.000Z'],
    ['2026-02-30', undefined],
    ['yesterday', undefined],
    ['1.5h', undefined],
    ['', undefined],
  ];
  for (const [text, instant] of cases) {
    test(`instantOf: parses "${text}" as ${instant ?? 'no instant'}`, () =>
      assert.equal(instantOf(text, now), instant));
  }
});
