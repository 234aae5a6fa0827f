import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createTimeWriter, formatTime, parseTime } from '../../src/core/date.ts';

describe('parseTime', () => {
  const good: [text: string, iso: string][] = [
    ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00.000Z'],
    ['2026-03-01t09:30:00z', '2026-03-01T09:30:00.000Z'],
    ['2026-03-01T09:30:00.5Z', '2026-03-01T09:30:00.500Z'],
    ['2026-03-01T09:30:00.9999999Z', '2026-03-01T09:30:00.999Z'],
    ['2026-03-01T09:30:00.123456789+00:00', '2026-03-01T09:30:00.123Z'],
    [`2026-03-01T10:30:00.1${'9'.repeat(1000)}+01:00`, '2026-03-01T09:30:00.199Z'],
    ['2026-03-01T09:30:00+01:30', '2026-03-01T08:00:00.000Z'],
    ['2026-03-01T23:30:00-00:45', '2026-03-02T00:15:00.000Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
    ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00.000Z'],
    ['0099-12-31T23:59:59.001Z', '0099-12-31T23:59:59.001Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
  ];
  for (const [text, iso] of good) {
    test(`parses ${text}`, () => {
      assert.equal(formatTime(parseTime(text) ?? NaN), iso);
    });
  }

  const bad = [
    '',
    '2026-03-01',
    '2026-03-01T09:30Z',
    '2026-03-01T09:30:00',
    '2026-03-01 09:30:00Z',
    ' 2026-03-01T09:30:00Z',
    '2026-03-01T09:30:00Z\n',
    '2026-02-29T00:00:00Z',
    '2026-02-30T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-03-01T24:00:00Z',
    '2026-03-01T09:60:00Z',
    '2026-12-31T23:59:60Z',
    '2026-03-01T09:30:00+24:00',
    '2026-03-01T09:30:00+01:60',
    '2026-03-01T09:30:00+0100',
    '2026-03-01T09:30:00.Z',
    '2026-03-01T09:30:00,5Z',
    '+02026-03-01T09:30:00Z',
    '0000-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '٢٠٢٦-03-01T09:30:00Z',
    'Sun, 01 Mar 2026 09:30:00 GMT',
    '1772357400000',
  ];
  for (const text of bad) {
    test(`parseTime rejects ${JSON.stringify(text)}`, () => {
      assert.equal(parseTime(text), undefined);
    });
  }

  test('parses the output of formatTime', () => {
    const years = { min: new Date('0000-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59Z') };
    fc.assert(
      fc.property(fc.date({ ...years, noInvalidDate: true }), (date) => {
        assert.equal(parseTime(formatTime(date.getTime())), date.getTime());
      }),
    );
  });

  test('parseTime never throws, for any text', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'0123456789-T:Z+. '.split('')) }),
        (text) => {
          parseTime(text);
        },
      ),
    );
  });
});

describe('createTimeWriter', () => {
  test('createTimeWriter returns the same as formatTime, in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 3 })), (times) => {
        const write = createTimeWriter();
        assert.deepEqual(
          times.map((time) => write(time)),
          times.map((time) => formatTime(time)),
        );
      }),
    );
  });
});
