import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type Column,
  dateColumn,
  fitted,
  pairLines,
  shortTime,
  tableLines,
} from '../../../src/cli/terminal/table.ts';
import { plain } from '../../../src/cli/terminal/terminal.ts';

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
  test('tableLines: aligns its columns and leaves no space at the end of a line', () => {
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

  test('tableLines: one name that is wider than the terminal leaves the other rows as they are', () => {
    const rows = [
      { id: 'n'.repeat(128), name: 'a reason of thirty-two characters', count: 5 },
      { id: 'crm', name: 'a reason of thirty-two characters', count: 120 },
    ];
    const [head, long, short] = tableLines(columns, rows, { width: 60, paint: plain });
    const reason = 'a reason of thirty-tw…';
    assert.equal(head, `${'ID'.padEnd(32)}  ${'NAME'.padEnd(21)}    N`);
    assert.equal(long, `${'n'.repeat(128)}  ${reason.slice(0, 20)}…    5`);
    assert.equal(short, `${'crm'.padEnd(32)}  ${reason.slice(0, 20)}…  120`);
  });

  test('tableLines: on a narrow terminal dates become shorter, then go, then columns by their rank', () => {
    const rows = [{ id: 'est_0123456789', name: 'first', count: 1 }];
    const narrow: readonly Column<Row>[] = [
      { header: 'ID', text: ({ id }) => id, leaves: 4 },
      { header: 'NAME', text: ({ name }) => name },
      {
        header: 'WHY',
        text: () => 'a long reason',
        short: { rank: 3, text: () => 'why' },
        cuttable: true,
      },
      dateColumn('AT', () => '2026-03-01T09:30:00.000Z'),
      { header: 'NONE', text: () => '', leaves: 5 },
    ];
    const at = (width: number | undefined) => tableLines(narrow, rows, { width, paint: plain })[1];
    assert.equal(at(undefined), 'est_0123456789  first  a long reason  2026-03-01 09:30:00Z');
    assert.equal(at(58), 'est_0123456789  first  a long reason  2026-03-01 09:30:00Z');
    assert.equal(at(57), 'est_0123456789  first  a long reason  03-01 09:30Z');
    assert.equal(at(49), 'est_0123456789  first  a long reason');
    assert.equal(at(35), 'est_0123456789  first  why');
    assert.equal(at(25), 'first  why');
    assert.equal(at(3), 'first  why');
  });

  test('tableLines: shortens cuttable columns to the width of the terminal, and ids never', () => {
    const rows = [{ id: 'est_0123456789', name: 'a name of many words', count: 1 }];
    assert.deepEqual(tableLines(columns, rows, { width: 30, paint: plain }), [
      'ID              NAME         N',
      'est_0123456789  a name of …  1',
    ]);
    const [, narrow] = tableLines(columns, rows, { width: 5, paint: plain });
    assert.equal(narrow, 'est_0123456789  a name …  1');
  });

  test('tableLines: aligns wide characters by their columns', () => {
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

  test('tableLines: shows control characters of the server as code points', () => {
    const hostile = { id: '\u001B[2J', name: 'a\nb\u202Ec\u009B', count: 1 };
    const [, line = ''] = tableLines(columns, [hostile], { width: undefined, paint: plain });
    assert.equal(line, '\\u{1b}[2J  a\\nb\\u{202e}c\\u{9b}  1');
    assert.deepEqual(pairLines([['Name', '\u0007']], plain), ['Name  \\u{7}']);
  });

  test('tableLines: paints whole cells, so that colours never move a column', () => {
    const painted = columns.map((column) => ({ ...column, format: () => 'red' as const }));
    const paint = (_format: unknown, text: string) => `<${text}>`;
    const rows = [{ id: 'a', name: 'b', count: 1 }];
    assert.deepEqual(tableLines(painted, rows, { width: undefined, paint }), [
      '<ID>  <NAME>  <N>',
      '<a >  <b   >  <1>',
    ]);
  });

  test('tableLines: is never wider than the terminal while a column can be shortened', () => {
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
