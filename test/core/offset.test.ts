import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { formatOffset, parseOffset } from '../../src/core/offset.ts';

const offsetMax = 999_999_999_999;

describe('offsets', () => {
  test('an offset is the base64 of its twelve decimal digits', () => {
    assert.equal(formatOffset(42), 'MDAwMDAwMDAwMDQy');
    assert.equal(formatOffset(0), 'MDAwMDAwMDAwMDAw');
    assert.equal(parseOffset('MDAwMDAwMDAwMDQy'), 42);
  });

  test('what is formatted is parsed', () => {
    const offset = fc.integer({ min: 0, max: offsetMax });
    fc.assert(
      fc.property(offset, (one) => {
        assert.equal(parseOffset(formatOffset(one)), one);
      }),
    );
  });

  test('nothing else is an offset', () => {
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
      btoa('           1'),
      btoa('+00000000042'),
      'MDAwMDAwMDAwMDQ/',
      'MDAwMDAwMDAwMDQ_',
      '../../etc/passwd',
      'A'.repeat(1_000_000),
    ];
    for (const text of hostile) assert.equal(parseOffset(text), undefined, text.slice(0, 40));
  });

  test('parsing never throws, and accepts only what formatting makes', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String({ minLength: 16 })), (text) => {
        const offset = parseOffset(text);
        if (offset !== undefined) assert.equal(formatOffset(offset), text);
        assert.ok(offset === undefined || Number.isSafeInteger(offset));
      }),
    );
  });
});
