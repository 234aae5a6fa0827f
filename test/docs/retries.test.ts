import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { span } from '../../src/console/retry-times.ts';
import { delaysOf, spreadBounds, spreadDelay } from '../../src/core/retry-schedule.ts';
import { dayMs, hourMs, minuteMs } from '../../src/core/units.ts';

const presets = ['quick', 'hours', 'days'] as const;
type Preset = (typeof presets)[number];

const outages = [
  ['a minute', 60],
  ['an hour', 3600],
  ['a day', 86_400],
  ['a week', 604_800],
] as const;

/** What is certain for the events of an outage, however long the waits of each are. */
interface Outcome {
  /** Events that are accepted in this last part of the outage do not fail. */
  readonly savedMs: number;
  /** They arrive within this time after its end. */
  readonly arriveMs: number;
  /** Whether all events before that part fail. */
  readonly isExact: boolean;
}

function outcomeOf(preset: Preset, awayMs: number): Outcome {
  const bounds = delaysOf(preset).map(spreadBounds);
  const shortest = bounds.map(({ minMs }) => minMs);
  const attempts = shortest.map((_, index) => sumOf(shortest.slice(0, index)));
  // The waits that can be under way when the receiver is back.
  const pending = bounds.filter((_, index) => (attempts[index] ?? 0) < awayMs);
  return {
    savedMs: sumOf(shortest),
    arriveMs: Math.max(...pending.map(({ maxMs }) => maxMs)),
    isExact: bounds.every(({ minMs, maxMs }) => minMs === maxMs),
  };
}

/** Returns an outcome as the documents say it. */
function cellOf(preset: Preset, awaySeconds: number): string {
  const { savedMs, arriveMs, isExact } = outcomeOf(preset, awaySeconds * 1000);
  const arrive = `arrive within ${roundedSpan(arriveMs, Math.ceil)}`;
  if (savedMs >= awaySeconds * 1000) return `all ${arrive}`;
  const fail = isExact ? 'fail' : 'may fail';
  return `those of its last ${roundedSpan(savedMs, Math.floor)} ${arrive}, earlier ones ${fail}`;
}

/** Returns a span without the smaller unit that {@link span} leaves out. */
function roundedSpan(ms: number, round: (value: number) => number): string {
  const unit = ms >= dayMs ? hourMs : ms >= hourMs ? minuteMs : 1000;
  return span((round(ms / unit) * unit) / 1000);
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

const rows = [
  ['Away for', ...presets.map((preset) => `\`${preset}\``)],
  ...outages.map(([name, seconds]) => [name, ...presets.map((each) => cellOf(each, seconds))]),
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

for (const preset of presets) {
  test(`${preset}: no event of an outage is later than the table says, and only early ones fail`, () => {
    for (const [, awaySeconds] of outages) {
      const awayMs = awaySeconds * 1000;
      const { savedMs, arriveMs } = outcomeOf(preset, awayMs);
      for (let number = 0; number < 2000; number += 1) {
        const acceptedMs = (awayMs * number) / 2000;
        const arrivedMs = arrivalOf(preset, awayMs, { acceptedMs, id: `evt_${number}` });
        if (arrivedMs === undefined) assert.ok(awayMs - acceptedMs > savedMs, `${acceptedMs}`);
        else assert.ok(arrivedMs - awayMs <= arriveMs, `${acceptedMs}: ${arrivedMs}`);
      }
    }
  });
}

/** Returns when an event arrives whose receiver is away at first; `undefined` if it fails. */
function arrivalOf(
  preset: Preset,
  awayMs: number,
  { acceptedMs, id }: { readonly acceptedMs: number; readonly id: string },
): number | undefined {
  let attemptMs = acceptedMs;
  for (const [index, delayMs] of delaysOf(preset).entries()) {
    if (attemptMs >= awayMs) return attemptMs;
    attemptMs += spreadDelay(delayMs, id, index + 1);
  }
  return attemptMs >= awayMs ? attemptMs : undefined;
}
