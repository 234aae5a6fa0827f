import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { chartLines } from '../../../src/cli/terminal/chart.ts';
import { plain } from '../../../src/cli/terminal/terminal.ts';
import { widthOf } from '../../../src/cli/terminal/width.ts';

describe('a bar chart', () => {
  test('chartLines: draws a bar for every row; the longest fills the width', () => {
    const rows = [
      { label: '09:00', good: 8, bad: 2 },
      { label: '10:00', good: 0, bad: 0 },
      { label: '11:00', good: 4, bad: 0 },
    ];
    assert.deepEqual(chartLines(rows, { width: 24, paint: plain }), [
      '09:00  8  2  ████████▒▒',
      '10:00  0  0',
      '11:00  4  0  ████',
    ]);
  });

  test('chartLines: shows every number other than zero and never exceeds its width', () => {
    const row = fc.record({
      label: fc.constant('2026-03-01'),
      good: fc.nat(1_000_000),
      bad: fc.nat(1_000_000),
    });
    fc.assert(
      fc.property(
        fc.array(row, { minLength: 1 }),
        fc.integer({ min: 45, max: 200 }),
        (rows, width) => {
          for (const [index, line] of chartLines(rows, { width, paint: plain }).entries()) {
            assert.ok(widthOf(line) <= width, `${line} > ${width}`);
            assert.equal(line.includes('█'), (rows[index]?.good ?? 0) > 0);
            assert.equal(line.includes('▒'), (rows[index]?.bad ?? 0) > 0);
          }
        },
      ),
    );
  });
});
