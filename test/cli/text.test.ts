import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { indented, readJson, terminalSafe, writeJson } from '../../src/cli/json.ts';
import {
  fitted,
  pairLines,
  shortTime,
  tableLines,
  type Column,
} from '../../src/cli/terminal/table.ts';
import { plain, pressKeys } from '../../src/cli/terminal/terminal.ts';
import { cutTo, widthOf } from '../../src/cli/terminal/width.ts';

interface Row {
  readonly id: string;
  readonly name: string;
  readonly count: number;
}

const columns: readonly Column<Row>[] = [
  { header: 'ID', text: ({ id }) => id },
  { header: 'NAME', text: ({ name }) => name, cuttable: true },
  { header: 'N', text: ({ count }) => String(count), align: 'right' },
];

describe('a table', () => {
  test('aligns its columns and leaves no space at the end of a line', () => {
    const rows = [
      { id: 'a', name: 'first', count: 5 },
      { id: 'bcd', name: 'x', count: 120 },
    ];
    assert.deepEqual(tableLines(columns, rows, { width: undefined, paint: plain }), [
      'ID   NAME     N',
      'a    first    5',
      'bcd  x      120',
    ]);
    assert.deepEqual(tableLines(columns, [], { width: 80, paint: plain }), ['ID  NAME  N']);
  });

  test('shortens cuttable columns to the width of the terminal, and ids never', () => {
    const rows = [{ id: 'est_0123456789', name: 'a name of many words', count: 1 }];
    assert.deepEqual(tableLines(columns, rows, { width: 30, paint: plain }), [
      'ID              NAME         N',
      'est_0123456789  a name of …  1',
    ]);
    const [, narrow] = tableLines(columns, rows, { width: 5, paint: plain });
    assert.equal(narrow, 'est_0123456789  a name …  1');
  });

  test('aligns wide characters by their columns', () => {
    const rows = [
      { id: '日本', name: 'é', count: 1 },
      { id: 'abcd', name: '👍🏽', count: 2 },
    ];
    assert.deepEqual(tableLines(columns, rows, { width: undefined, paint: plain }), [
      'ID    NAME  N',
      '日本  é     1',
      'abcd  👍🏽    2',
    ]);
  });

  test('shows control characters of the server as code points', () => {
    const hostile = { id: '\u001B[2J', name: 'a\nb\u202Ec\u009B', count: 1 };
    const [, line = ''] = tableLines(columns, [hostile], { width: undefined, paint: plain });
    assert.equal(line, '\\u{1b}[2J  a\\u{a}b\\u{202e}c\\u{9b}  1');
    assert.deepEqual(pairLines([['Name', '\u0007']], plain), ['Name  \\u{7}']);
  });

  test('paints whole cells, so that colours never move a column', () => {
    const painted = columns.map((column) => ({ ...column, format: () => 'red' as const }));
    const paint = (_format: unknown, text: string) => `<${text}>`;
    const rows = [{ id: 'a', name: 'b', count: 1 }];
    assert.deepEqual(tableLines(painted, rows, { width: undefined, paint }), [
      '<ID>  <NAME>  <N>',
      '<a >  <b   >  <1>',
    ]);
  });

  test('is never wider than the terminal while a column can be shortened', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 60 }), fc.boolean()), { minLength: 1 }),
        fc.integer({ min: 10, max: 200 }),
        (cells, width) => {
          const natural = cells.map(([each]) => each);
          const cuttable = cells.map(([, each]) => each);
          const widths = fitted(natural, cuttable, width);
          const total = widths.reduce((sum, each) => sum + each + 2, -2);
          const most = Math.max(0, ...widths.filter((_, index) => cuttable[index]));
          assert.ok(total <= width || most <= 8, `${total} > ${width}`);
          for (const [index, each] of widths.entries()) {
            if (cuttable[index] === false) assert.equal(each, natural[index]);
            assert.ok(each <= (natural[index] ?? 0));
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('widthOf and cutTo', () => {
  test('widthOf: counts columns, not characters', () => {
    assert.equal(widthOf('abc'), 3);
    assert.equal(widthOf('日本語'), 6);
    assert.equal(widthOf('e\u0301'), 1);
    assert.equal(widthOf('👩‍👩‍👧'), 2);
  });

  test('cutTo: never exceeds the width and never splits a character', () => {
    assert.equal(cutTo('abcdef', 6), 'abcdef');
    assert.equal(cutTo('abcdef', 5), 'abcd…');
    assert.equal(cutTo('日本語', 4), '日…');
    assert.equal(cutTo('abc', 1), '…');
    assert.equal(cutTo('abc', 0), '');
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.integer({ min: 0, max: 20 }),
        (text, width) => {
          assert.ok(widthOf(cutTo(text, width)) <= width);
        },
      ),
    );
  });
});

describe('pairLines and shortTime', () => {
  test('pairLines: prints one pair per line, without absent values', () => {
    const pairs = [
      ['Id', 'a'],
      ['Status', 'enabled'],
      ['Absent', undefined],
    ] as const;
    assert.deepEqual(pairLines(pairs, plain), ['Id      a', 'Status  enabled']);
  });

  test('shortTime: prints an instant to the second, and any other text unchanged', () => {
    assert.equal(shortTime('2026-03-01T09:30:00.971Z'), '2026-03-01 09:30:00Z');
    assert.equal(shortTime('soon'), 'soon');
  });
});

describe('JSON output', () => {
  test('keeps the digits of numbers that a double cannot hold', () => {
    const text = '{"a":12345678901234567890,"b":[1.10,1e400,-0],"c":"12345678901234567890"}';
    assert.equal(writeJson(readJson(text)), text);
    assert.equal(indented(readJson('{"a":1.0}')), '{\n  "a": 1.0\n}');
  });

  test('escapes what a terminal might obey, and keeps the value', () => {
    const text = '{"a":"\u007F\u009B31m\u202E\u2028 é日👍"}';
    const safe = terminalSafe(text);
    assert.equal(safe, '{"a":"\\u007f\\u009b31m\\u202e\\u2028 é日👍"}');
    assert.deepEqual(JSON.parse(safe), JSON.parse(text));
    assert.equal(terminalSafe('"\u{E0001}"'), '"\\udb40\\udc01"');
  });
});

describe('pressKeys', () => {
  test('ends at Enter and applies editing keys', () => {
    assert.deepEqual(pressKeys('', 'secret\r'), { typed: 'secret', ended: 'entered' });
    assert.deepEqual(pressKeys('ab', '\u007Fc'), { typed: 'ac' });
    assert.deepEqual(pressKeys('ab', '\u0015c\n'), { typed: 'c', ended: 'entered' });
    assert.deepEqual(pressKeys('👍', '\u007F'), { typed: '' });
    assert.deepEqual(pressKeys('a', '\u001B\u0004'), { typed: 'a' });
  });

  test('is interrupted by Ctrl-C, or by Ctrl-D in an empty line', () => {
    assert.deepEqual(pressKeys('ab', '\u0003'), { typed: 'ab', ended: 'interrupted' });
    assert.deepEqual(pressKeys('', '\u0004'), { typed: '', ended: 'interrupted' });
  });
});
