import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  formatCursor,
  formatFailureKey,
  parseCursor,
  parseFailureKey,
} from '../../src/core/page.ts';

describe('page cursors', () => {
  test('parseCursor reads the output of formatCursor', () => {
    const key = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(key, (text) => {
        assert.match(formatCursor(text), /^[A-Za-z0-9_-]+$/);
        assert.equal(parseCursor(formatCursor(text)), text);
      }),
    );
  });

  test('parseCursor rejects malformed and hostile texts', () => {
    const hostile = [
      '',
      '=',
      'a',
      'YQ==',
      'YQ\n',
      'YR', // the unused bits are not zero
      'Y Q',
      'Y+Q/',
      '_w', // the byte 0xff is not UTF-8
      'é',
      'Y'.repeat(1028),
    ];
    for (const text of hostile) assert.equal(parseCursor(text), undefined, text.slice(0, 40));
  });

  test('parseCursor never throws, and accepts only the output of formatCursor', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
        const key = parseCursor(text);
        assert.ok(key === undefined || formatCursor(key) === text);
      }),
    );
  });
});

describe('failure keys', () => {
  test('parseFailureKey reads the output of formatFailureKey', () => {
    const key = { failedAt: 1_772_357_400_000, eventId: 'evt_U4ud8Fhhe4deS4F3cw9KTA' };
    assert.deepEqual(parseFailureKey(formatFailureKey(key)), key);
  });

  test('parseFailureKey rejects malformed and hostile texts', () => {
    const hostile = ['', '.', '1.', '.evt_1', '-1.evt_1', '1e3.evt_1', 'NaN.evt_1', '1.a b'];
    hostile.push('1.evt\u0000', `${'9'.repeat(16)}.evt_1`, `1.${'a'.repeat(65)}`, '1.é', '1.a\n');
    for (const text of hostile) assert.equal(parseFailureKey(text), undefined, text.slice(0, 40));
  });
});
