import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { attemptTimes, delaysSecondsOf, span } from '../../src/console/retry-times.ts';

const presets = ['quick', 'hours', 'days'] as const;

const outages = [
  ['a minute', 60],
  ['an hour', 3600],
  ['a day', 86_400],
  ['a week', 604_800],
] as const;

/** Returns what becomes of the events of an outage by a schedule, as the documents say it. */
function outcomeOf(preset: (typeof presets)[number], awaySeconds: number): string {
  const delays = delaysSecondsOf(preset);
  const times = attemptTimes(delays).timesMs.map((timeMs) => timeMs / 1000);
  const lostSeconds = awaySeconds - (times.at(-1) ?? 0);
  // The waits that are under way when the receiver is back.
  const latest = Math.max(...delays.filter((_, index) => (times[index] ?? 0) < awaySeconds));
  const arrive = `arrive within ${span(latest)}`;
  return lostSeconds <= 0
    ? `all ${arrive}`
    : `its first ${span(lostSeconds)} fail, the rest ${arrive}`;
}

const rows = [
  ['Away for', ...presets.map((preset) => `\`${preset}\``)],
  ...outages.map(([name, seconds]) => [name, ...presets.map((each) => outcomeOf(each, seconds))]),
];

for (const path of ['README.md', 'docs/retries.md']) {
  test(`${path} says what becomes of the events of an outage by each schedule`, async () => {
    const lines = (await readFile(path, 'utf8')).split('\n');
    const cells = lines.map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
    const start = cells.findIndex(([first]) => first === rows[0]?.[0]);
    assert.ok(start >= 0, 'the table is there');
    const table = [cells[start], ...cells.slice(start + 2, start + 2 + outages.length)];
    assert.deepEqual(table, rows);
  });
}
