import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { batchesOf } from '../../src/cli/batches.ts';
import { chartLines } from '../../src/cli/terminal/chart.ts';
import type { AttemptShown } from '../../src/cli/deliveries.ts';
import { CommandFailed } from '../../src/cli/errors.ts';
import { bar, counted, progressText } from '../../src/cli/terminal/progress.ts';
import { hasEnded, redeliveryState } from '../../src/cli/redelivery.ts';
import { replayProgress } from '../../src/cli/replay.ts';
import { readEventStream } from '../../src/cli/http/event-stream.ts';
import { eventLine } from '../../src/cli/tail.ts';
import { plain } from '../../src/cli/terminal/terminal.ts';
import { instantOf } from '../../src/cli/time.ts';
import { widthOf } from '../../src/cli/terminal/width.ts';

const now = Date.parse('2026-03-01T10:00:00.000Z');

describe('progressText', () => {
  test('has a bar, a percentage and notes', () => {
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

  test('has no bar while the total is not known', () => {
    const progress = { label: 'Publishing', done: 5, total: undefined, notes: ['5 events'] };
    assert.equal(progressText(progress, 100), 'Publishing  5 events');
  });

  test('reaches 100 % only when all is done, and fits on one line', () => {
    const line = (done: number, total: number, width = 100) =>
      progressText({ label: 'A', done, total, notes: ['note'] }, width);
    assert.match(line(4999, 5000), / 99 %/);
    assert.match(line(5000, 5000), / 100 %/);
    assert.match(line(0, 0), / 100 %/);
    assert.equal(widthOf(line(1, 2, 20)), 19);
    assert.equal(bar(0.5, 4), '██░░');
    assert.deepEqual([counted(1, 'event'), counted(0, 'event')], ['1 event', '0 events']);
  });

  test('counts the deliveries and failures of a replay', () => {
    const line = replayProgress({ matched: 10, sent: 4, failed: 1 }, 100);
    assert.match(line, /50 %  4 delivered · 1 failed · 10 found so far$/);
  });
});

describe('a bar chart', () => {
  test('draws a bar for every row; the longest fills the width', () => {
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

  test('shows every number other than zero and never exceeds its width', () => {
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
    test(`parses "${text}" as ${instant ?? 'no instant'}`, () =>
      assert.equal(instantOf(text, now), instant));
  }
});

describe('a redelivery', () => {
  const at = '2026-03-01T09:59:59.000Z';
  const failed = (error: string, timestamp = at): AttemptShown => ({
    status: 'failed',
    timestamp,
    duration: 1,
    error_message: error,
  });
  const retrying: AttemptShown = { status: 'retrying', timestamp: at };
  const four = Array<AttemptShown>(4).fill(failed('503 - busy'));

  const cases: [string, AttemptShown[], boolean][] = [
    ['is running before its first attempt', [...four, retrying], false],
    ['is running before the server has started it', four, false],
    ['is running after the first of four attempts', [...four, retrying, failed('timeout')], false],
    ['has ended after the fourth', [...four, retrying, ...four], true],
    ['has ended after an error that is not retried', [...four, retrying, failed('404 - no')], true],
    ['has ended after such an error without a message', [...four, retrying, failed('301')], true],
    ['is running after 429, which is retried', [...four, retrying, failed('429')], false],
    [
      'has ended after a blocked address',
      [...four, retrying, failed('blocked address: 127.0.0.1 (LEAT_EGRESS_ALLOW)')],
      true,
    ],
    [
      'has ended after as many attempts as the previous cycle, for any LEAT_RETRY_DELAYS_MS',
      [failed('timeout'), failed('timeout'), retrying, failed('timeout'), failed('timeout')],
      true,
    ],
    [
      'is running when the previous cycle ended early',
      [failed('404 - no'), retrying, failed('timeout')],
      false,
    ],
    [
      'has ended after a pause longer than any retry delay',
      [...four, retrying, failed('timeout', '2026-03-01T09:58:00.000Z')],
      true,
    ],
  ];
  for (const [title, attempts, ended] of cases) {
    test(title, () => assert.equal(hasEnded(attempts, now), ended));
  }

  test('counts a failure without a record as delivered', () => {
    const record = (id: string, attempts: AttemptShown[]) => ({
      id,
      event_type: 'a.b',
      attempts,
      event: {},
    });
    const records = [
      record('b', [...four, retrying, ...four]),
      record('c', [...four, retrying]),
      record('not-requested', four),
    ];
    assert.deepEqual(redeliveryState(new Set(['a', 'b', 'c', 'd']), records, now), {
      requested: 4,
      delivered: 2,
      failed: 1,
      left: 1,
    });
  });
});

describe('readEventStream', () => {
  const text =
    ':connected\nretry: 2000\n\nevent: user.created\nid: MQ\ndata: {"a":"ü"}\n\n' +
    ': heartbeat\n\nevent: offset-only\r\nid: Mg\r\ndata: {}\r\n\r\ndata: x\ndata:  y\n\n';
  const expected = [
    { event: 'user.created', id: 'MQ', data: '{"a":"ü"}' },
    { event: 'offset-only', id: 'Mg', data: '{}' },
    { event: undefined, id: undefined, data: 'x\n y' },
  ];
  const read = (chunks: readonly Uint8Array[], onRetry = (_retryMs: number): void => {}) =>
    Array.fromAsync(readEventStream(ReadableStream.from<Uint8Array>(chunks), onRetry));

  test('reads the same events however the bytes are cut', async () => {
    const bytes = Buffer.from(text);
    const cutsOf = fc.array(fc.integer({ min: 0, max: bytes.length }));
    await fc.assert(
      fc.asyncProperty(cutsOf, async (cuts) => {
        const ends = [...cuts.toSorted((a, b) => a - b), bytes.length];
        const chunks = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
        const retries: number[] = [];
        assert.deepEqual(await read(chunks, (retryMs) => retries.push(retryMs)), expected);
        assert.deepEqual(retries, [2000]);
      }),
    );
  });

  test('drops an event that is cut off', async () => {
    assert.deepEqual(await read([Buffer.from('event: a\ndata: 1\n')]), []);
  });

  test('fails on an event without an end', async () => {
    const line = Buffer.from(`data: ${'x'.repeat(1024 * 1024)}\n`);
    await assert.rejects(read(Array<Buffer>(10).fill(line)), RangeError);
  });
});

describe('eventLine', () => {
  const event = {
    id: 'evt_1',
    type: 'user.created',
    time: '2026-03-01T09:30:00.971Z',
    data: { object: { name: 'a\u001B[31m\u009B' } },
  };

  test('has time of day, type, id and data', () => {
    const line = eventLine(event, { width: undefined, paint: plain });
    assert.equal(line, '09:30:00  user.created            evt_1  {"name":"a\\u001b[31m\\u009b"}');
    assert.equal(widthOf(eventLine(event, { width: 50, paint: plain })), 50);
  });

  test('paints the type in the colour of its family', () => {
    const paint = (format: unknown, text: string) => `<${String(format)} ${text.trim()}>`;
    assert.match(eventLine(event, { width: undefined, paint }), /<cyan user\.created>/);
    const other = { ...event, type: 'order.paid' };
    assert.match(eventLine(other, { width: undefined, paint }), /<green order\.paid>/);
  });

  test('returns one line for any event', () => {
    for (const invalid of [{}, { type: 1, id: null, time: {}, data: 'x' }]) {
      assert.equal(eventLine(invalid, { width: 80, paint: plain }).includes('\n'), false);
    }
  });
});

describe('lines of NDJSON', () => {
  async function* from(lines: readonly string[]): AsyncGenerator<string> {
    yield* lines;
  }
  const collect = async (lines: readonly string[]) => {
    const sizes: number[][] = [];
    for await (const { events, lines: numbers } of batchesOf(from(lines))) {
      sizes.push([events.length, numbers[0] ?? 0]);
    }
    return sizes;
  };

  test('make batches of a thousand, empty lines left out', async () => {
    const lines = Array<string>(2500).fill('{"type":"a.b","data":{}}');
    assert.deepEqual(await collect(['', ...lines, ' ']), [
      [1000, 2],
      [1000, 1002],
      [500, 2002],
    ]);
    assert.deepEqual(await collect([]), []);
  });

  test('make smaller batches of large events', async () => {
    const line = JSON.stringify({ type: 'a.b', data: { object: 'x'.repeat(1_000_000) } });
    assert.deepEqual(await collect([line, line, line, line]), [
      [3, 1],
      [1, 4],
    ]);
  });

  test('that are no JSON object stop after the batches before them, with their number', async () => {
    for (const bad of ['{"type":', '[]', '1', 'null']) {
      const seen: number[] = [];
      await assert.rejects(
        async () => {
          for await (const { events } of batchesOf(from(['{}', '', bad, '{}']))) {
            seen.push(events.length);
          }
        },
        (error) =>
          error instanceof CommandFailed && error.message.startsWith('Line 3 of the input'),
      );
      assert.deepEqual(seen, [1]);
    }
  });
});
