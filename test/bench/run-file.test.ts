import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  compareFigures,
  differences,
  InvalidRun,
  parseRun,
  readRun,
  type Run,
  sameFigure,
} from '../../bench/run-file.ts';

const run: Run = {
  format: 1,
  date: '2026-11-27T07:00:00.000Z',
  machine: {
    cores: 2,
    processor: 'one',
    platform: 'linux x64',
    fsyncMicros: 140,
    node: 'v26.10.0',
  },
  options: { events: 1000 },
  profiled: false,
  figures: [
    { bench: 'drain', name: 'drain', unit: '×', values: [1, 2, 3, 4, 5], better: 'higher' },
    { bench: 'facts', name: 'beside', unit: 'ms', values: [1, null] },
  ],
};

function reject(value: unknown, message: RegExp): void {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  assert.throws(
    () => parseRun(text),
    (error) => error instanceof InvalidRun && message.test(error.message),
  );
}

test('a run is read as it was written', () => {
  assert.deepEqual(parseRun(JSON.stringify(run)), run);
});

test('a file that is not JSON or cut off is rejected', () => {
  reject('drain: 0.58', /^It is not JSON \(.+\): write it with --json\.$/);
  reject(JSON.stringify(run).slice(0, -5), /^It is not JSON/);
  reject('', /^It is not JSON/);
});

test('JSON that is no run is rejected with the place of the first error', () => {
  reject('null', /^the file must be object: write it with --json of this version\.$/);
  reject({ machine: {}, figures: [] }, /^the file must have required properties format/);
  reject({ ...run, format: 2 }, /^\/format must be equal to constant/);
  const [figure] = run.figures;
  reject(
    { ...run, figures: [{ ...figure, values: [1, 'two'] }] },
    /^\/figures\/0\/values\/1 must be/,
  );
});

test('a profiled run is rejected', () => {
  reject({ ...run, profiled: true }, /^It was measured with --profile/);
});

test('a file that is missing and a folder are rejected', () => {
  const missing = join(tmpdir(), 'leat-bench-missing', 'old.json');
  assert.throws(() => readRun(missing), new InvalidRun('It cannot be read (ENOENT).'));
  assert.throws(() => readRun(tmpdir()), new InvalidRun('It cannot be read (EISDIR).'));
});

test('a figure is the same one with benchmark, name and unit', () => {
  assert.equal(sameFigure(run, { bench: 'drain', name: 'drain', unit: '×' }), run.figures[0]);
  assert.equal(sameFigure(run, { bench: 'order', name: 'drain', unit: '×' }), undefined);
  assert.equal(sameFigure(run, { bench: 'drain', name: 'drain', unit: 'ms' }), undefined);
});

test('rounds without a value do not count', () => {
  const now = { bench: 'drain', name: 'drain', unit: '×', better: 'higher' as const };
  const before = { ...now, values: [1, 2, 3, 4, 5, null] };
  assert.equal(compareFigures(before, { ...now, values: [6, 7, 8, 9, 10] }).chance, 2 / 252);
  assert.equal(compareFigures(before, { ...now, values: [6, NaN] }).change, 'too few rounds');
});

test('what makes two runs hard to compare is said', () => {
  assert.deepEqual(differences(run, run), []);
  const other = { ...run, machine: { ...run.machine, node: 'v27.0.0' }, options: {} };
  assert.deepEqual(differences(run, other), [
    'Not the same version of Node: v26.10.0 before, v27.0.0 now.',
    'Not the same --events: 1000 before, not given now.',
  ]);
});
