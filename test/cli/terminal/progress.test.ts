import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { replayProgress } from '../../../src/cli/replay.ts';
import { bar, counted, progressText } from '../../../src/cli/terminal/progress.ts';
import { widthOf } from '../../../src/cli/terminal/width.ts';

describe('progressText', () => {
  test('progressText: shows a bar, a percentage and notes', () => {
    const progress = {
      label: 'Redelivering',
      done: 5,
      total: 20,
      notes: ['5 delivered', '15 left'],
    };
    assert.equal(
      progressText(progress, 100),
      `Redelivering  ${'█'.repeat(8)}${'░'.repeat(22)}   25 %  5 delivered · 15 left`,
    );
  });

  test('progressText: shortens the bar before the notes', () => {
    const notes = ['0 delivered', '112 failed again', '10388 left'];
    const progress = { label: 'Redelivering', done: 112, total: 10_500, notes };
    const line = progressText(progress, 80);
    assert.ok(line.endsWith(`    1 %  ${notes.join(' · ')}`), line);
    assert.equal(widthOf(line), 79);
  });

  test('progressText: shows no bar while the total is not known', () => {
    const progress = { label: 'Publishing', done: 5, total: undefined, notes: ['5 events'] };
    assert.equal(progressText(progress, 100), 'Publishing  5 events');
  });

  test('progressText: reaches 100 % only when all is done, and fits on one line', () => {
    const line = (done: number, total: number, width = 100) =>
      progressText({ label: 'A', done, total, notes: ['note'] }, width);
    assert.match(line(4999, 5000), / 99 %/);
    assert.match(line(5000, 5000), / 100 %/);
    assert.match(line(0, 0), / 100 %/);
    assert.equal(widthOf(line(1, 2, 20)), 19);
    assert.equal(bar(0.5, 4), '██░░');
    assert.deepEqual([counted(1, 'event'), counted(0, 'event')], ['1 event', '0 events']);
    assert.equal(counted(2, 'event', true), 'at least 2 events');
  });

  test('replayProgress: counts the deliveries and failures of a replay', () => {
    const line = replayProgress({ matched: 10, sent: 4, failed: 1 }, 100);
    assert.match(line, /50 %  4 delivered · 1 failed · 10 found so far$/);
  });
});
