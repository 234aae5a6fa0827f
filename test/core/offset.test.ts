import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { checkOf, formatOffset, formatPosition, parseOffset } from '../../src/core/offset.ts';

const offsetMax = 999_999_999_999;

describe('offsets', () => {
  test('an offset without a check is the base64 of its twelve decimal digits', () => {
    assert.equal(formatOffset(42), 'MDAwMDAwMDAwMDQy');
    assert.equal(formatOffset(0), 'MDAwMDAwMDAwMDAw');
    assert.deepEqual(parseOffset('MDAwMDAwMDAwMDQy'), { offset: 42 });
  });

  test('an offset with a check is the base64 of both, joined by a dot', () => {
    const id = 'evt_b8dLcukC7edhDQ7cn5d4gE';
    const text = formatOffset(42, id);
    assert.equal(atob(text), '000000000042.cfd8b04a');
    assert.deepEqual(parseOffset(text), { offset: 42, check: checkOf(id) });
  });

  test('ids made at one instant have different checks', () => {
    const ids = Array.from(
      { length: 10_000 },
      (_, index) => `evt_b8dLcukC7edhDQ7cn5${1000 + index}`,
    );
    const checks = new Set(ids.map(checkOf));
    // Among 10,000 random numbers of 32 bits one pair at most is expected to be equal.
    assert.ok(checks.size > 9_990, `${checks.size} different ones`);
  });

  test('parseOffset reads the output of formatPosition', () => {
    const offset = fc.integer({ min: 0, max: offsetMax });
    const check = fc.option(fc.integer({ min: 0, max: 0xffff_ffff }), { nil: undefined });
    fc.assert(
      fc.property(offset, check, (one, two) => {
        const position = { offset: one, ...(two !== undefined && { check: two }) };
        const text = formatPosition(position);
        assert.match(text, /^[A-Za-z0-9]+$/);
        assert.deepEqual(parseOffset(text), position);
      }),
    );
  });

  test('parseOffset rejects malformed and hostile texts', () => {
    const hostile = [
      '',
      '42',
      '000000000042',
      'MDAwMDAwMDAwMDQ',
      'MDAwMDAwMDAwMDQy\n',
      ' MDAwMDAwMDAwMDQy',
      'MDAwMDAwMDAwMDQy=',
      'MDAwMDAwMDAwMDQyMDAw',
      btoa('-00000000042'),
      btoa('0x0000000042'),
      btoa('1e0000000042'),
      btoa('000000000042.0000000G'),
      btoa('000000000042.ABCDEF01'),
      btoa('000000000042-01234567'),
      btoa('000000000042.0123456'),
      btoa('           1'),
      btoa('+00000000042'),
      'MDAwMDAwMDAwMDQ/',
      'MDAwMDAwMDAwMDQ_',
      '../../etc/passwd',
      'A'.repeat(1_000_000),
    ];
    for (const text of hostile) assert.equal(parseOffset(text), undefined, text.slice(0, 40));
  });

  test('parseOffset never throws, and accepts only the output of formatPosition', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String({ minLength: 16 })), (text) => {
        const position = parseOffset(text);
        if (position === undefined) return;
        assert.equal(formatPosition(position), text);
        assert.ok(Number.isSafeInteger(position.offset));
      }),
    );
  });
});
