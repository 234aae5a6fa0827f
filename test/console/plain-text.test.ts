import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { jsonText, plainText, preview } from '../../src/console/parts/plain-text.ts';
import { parseKeepingNumbers } from '../../src/console/request.ts';

describe('texts from outside', () => {
  test('marks of direction and other invisible characters are written out', () => {
    assert.equal(plainText('a\u202eb\u2066c\u200bd\u0007e'), 'a\\u202eb\\u2066c\\u200bd\\u0007e');
  });

  test('letters, emoji with joiners, line breaks and tabs stay', () => {
    const text = 'Zoë 王小明 נועה 👩‍🚀\n\tŁódź';
    assert.equal(plainText(text), text);
  });

  test('JSON text is JSON of the same value', () => {
    const value = { 'a\u202e': ['\u2028', '\ufeff', '</script>', '\\u202e'] };
    const text = jsonText(value);
    assert.deepEqual(JSON.parse(text), value);
    assert.ok(!text.includes('\u202e'));
  });

  test('a preview is one line and ends', () => {
    assert.equal(preview({ a: '\n' }), '{"a":"\\n"}');
    assert.equal(preview('x'.repeat(1000), 10), '"xxxxxxxxx…');
  });
});

describe('parseKeepingNumbers', () => {
  for (const text of [
    '{"n":12345678901234567890}',
    '{"n":1.0}',
    '{"n":[1e400,-0,1E+2,0.10]}',
    '{"n":9007199254740993,"s":"9007199254740993"}',
  ]) {
    test(`${text} is shown as it was sent`, () => {
      assert.equal(JSON.stringify(parseKeepingNumbers(text)), text);
    });
  }

  test('other numbers are numbers', () => {
    assert.deepEqual(parseKeepingNumbers('{"a":1,"b":35.2,"c":[-7,0]}'), {
      a: 1,
      b: 35.2,
      c: [-7, 0],
    });
  });
});
