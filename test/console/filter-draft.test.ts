import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  draftOfFilter,
  filterOfDraft,
  withRows,
  withText,
} from '../../src/console/filter-draft.ts';
import { emptyRow } from '../../src/console/filter-rows.ts';

const plan = { path: 'data.object.plan', operator: '$eq', value: 'pro' } as const;

test('drafts: rows and JSON agree after either is edited', () => {
  const draft = withRows([plan, emptyRow]);
  assert.deepEqual(JSON.parse(draft.text), { 'data.object.plan': 'pro' });
  assert.equal(draft.rows?.length, 2, 'the row that has no field yet stays');
  assert.deepEqual(withText(draft.text).rows, [plan]);
  assert.deepEqual(withText('{"a": 1'), { text: '{"a": 1', rows: undefined });
  assert.deepEqual(withText(' '), { text: ' ', rows: [] });
  assert.deepEqual(withRows([emptyRow]), { text: '', rows: [emptyRow] });
});

test('drafts: a filter with alternatives has no rows, and is kept as it is', () => {
  const filter = { $or: [{ a: 1 }, { b: { $not: { $gt: 5 } } }] };
  const draft = draftOfFilter(filter);
  assert.equal(draft.rows, undefined);
  assert.deepEqual(filterOfDraft(draft), { filter });
});

test('drafts: the rules of the server are those of the form', () => {
  assert.deepEqual(filterOfDraft(draftOfFilter(undefined)), { filter: undefined });
  assert.deepEqual(filterOfDraft(withText('{"a":1}')), { filter: { a: 1 } });
  assert.deepEqual(filterOfDraft(withText('{}')), { filter: {} });
  assert.deepEqual(filterOfDraft(withText('{"a"')), { problem: 'This is not JSON' });
  const { problem = '' } = filterOfDraft(withText('{"a":{"$regex":"x"}}')) as { problem?: string };
  assert.match(problem, /Unknown operator.*at a\.\$regex/);
});

test('drafts: a number keeps the digits that somebody typed, in rows and JSON', () => {
  const row = { path: 'data.id', operator: '$eq', value: '1546130668394913822' } as const;
  const draft = withRows([row]);
  assert.match(draft.text, /: 1546130668394913822\b/);
  assert.deepEqual(withText(draft.text).rows, [row]);
  assert.match(JSON.stringify(filterOfDraft(draft)), /:1546130668394913822\}/);
});
