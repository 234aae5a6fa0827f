import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { traceHeaders, traceOf } from '../../src/core/trace.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
const parent = '00f067aa0ba902b7';

describe('the tracestate of a request', () => {
  const parentHeader = `00-${trace}-${parent}-01`;
  const stateOf = (state: string): string | undefined =>
    traceHeaders(traceOf(parentHeader, state) ?? '')[3];

  test('a valid tracestate follows the traceparent, its members as they are and in their order', () => {
    assert.equal(traceOf(parentHeader, 'a=1'), `${parentHeader} a=1`);
    assert.deepEqual(traceHeaders(`${parentHeader} a=1`), [
      'traceparent',
      parentHeader,
      'tracestate',
      'a=1',
    ]);
    assert.deepEqual(traceHeaders(parentHeader), ['traceparent', parentHeader]);
    assert.equal(
      stateOf('rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'),
      'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
    );
    assert.equal(
      stateOf('fw529a3039@dt=FfAaDzU;b c:d!, 1a_-*/=~ ,\t,z=  x '),
      'fw529a3039@dt=FfAaDzU;b c:d!,1a_-*/=~,z=  x',
    );
    const most = Array.from({ length: 32 }, (_, n) => `k${n}=v`).join(',');
    assert.equal(stateOf(most), most);
  });

  test('an invalid tracestate is left out, and the traceparent stays', () => {
    const invalid = [
      '',
      ' , ',
      'a',
      'a=',
      'a= ',
      '=1',
      'A=1',
      'a b=1',
      'a=1=2',
      'a=1,a=2',
      'a=1,b',
      'a=é',
      'a=\x7f',
      'a=1\r\nx-b: c',
      `${'k'.repeat(257)}=1`,
      `a=${'v'.repeat(257)}`,
      Array.from({ length: 33 }, (_, n) => `k${n}=v`).join(','),
    ];
    for (const state of invalid) assert.equal(traceOf(parentHeader, state), parentHeader, state);
  });

  test('a tracestate without a valid traceparent is ignored', () => {
    assert.equal(traceOf(undefined, 'a=1'), undefined);
    assert.equal(traceOf('00-1-2-01', 'a=1'), undefined);
  });

  test('of a tracestate of more than 512 characters long members are left out first, then the last', () => {
    const long = `long=${'x'.repeat(130)}`;
    const short = (n: number): string => `k${n}=${'v'.repeat(97)}`.slice(0, 100);
    const shorts = Array.from({ length: 6 }, (_, n) => short(n));
    assert.equal(stateOf([long, ...shorts.slice(0, 4)].join(',')), shorts.slice(0, 4).join(','));
    assert.equal(stateOf([...shorts, long].join(',')), shorts.slice(0, 5).join(','));
    assert.equal(
      stateOf([long, ...shorts.slice(0, 3)].join(',')),
      [long, ...shorts.slice(0, 3)].join(','),
    );
  });
});

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
