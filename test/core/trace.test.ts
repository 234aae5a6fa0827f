import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { traceOf } from '../../src/core/trace.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
const parent = '00f067aa0ba902b7';

describe('traceOf', () => {
  test('traceOf returns a valid traceparent unchanged', () => {
    for (const flags of ['00', '01', '03', 'ff']) {
      const header = `00-${trace}-${parent}-${flags}`;
      assert.equal(traceOf(header), header);
    }
  });

  test('rewrites a later version as version 00', () => {
    assert.equal(traceOf(`01-${trace}-${parent}-09-what-follows`), `00-${trace}-${parent}-01`);
    assert.equal(traceOf(`cc-${trace}-${parent}-02`), `00-${trace}-${parent}-00`);
  });

  const invalid = {
    'no header': undefined,
    'an empty header': '',
    'another text': 'trace me',
    'upper case': `00-${trace.toUpperCase()}-${parent}-01`,
    'a trace of zeros': `00-${'0'.repeat(32)}-${parent}-01`,
    'a parent of zeros': `00-${trace}-${'0'.repeat(16)}-01`,
    'the version ff': `ff-${trace}-${parent}-01`,
    'version 00 with further fields': `00-${trace}-${parent}-01-more`,
    'flags without a separator after them': `01-${trace}-${parent}-01more`,
    'missing flags': `00-${trace}-${parent}`,
    'two headers': `00-${trace}-${parent}-01, 00-${trace}-${parent}-01`,
    'a line feed at the end': `00-${trace}-${parent}-01\n`,
  };
  for (const [name, header] of Object.entries(invalid)) {
    test(`traceOf rejects ${name}`, () => assert.equal(traceOf(header), undefined));
  }
});
