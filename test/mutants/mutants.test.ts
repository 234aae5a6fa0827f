import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { search } from '../simulation/search.ts';
import { mutants } from './all.ts';
import { mutated, requireFit } from './mutant.ts';
import { nightMutants } from './nights.ts';
import { runTest } from './run-test.ts';
import { cellsOf, rowsIn } from './table.ts';
import { createTitleSearch } from './titles.ts';

describe('mutants', () => {
  for (const mutant of [...mutants, ...nightMutants]) {
    test(`the patch fits: ${mutant.name}`, () => {
      assert.notEqual(mutant.before, mutant.after);
      requireFit(mutant);
    });
  }

  test('each has a name of its own', () => {
    assert.equal(new Set(mutants.map(({ name }) => name)).size, mutants.length);
  });

  test('a patch that does not fit is refused', () => {
    const mutant = { name: 'a mutant', file: 'core/ids.ts', before: 'twice', after: '' };
    assert.throws(() => mutated('twice twice', mutant), /"a mutant" fits in 2 places/);
  });

  test('each names a test that is there', () => {
    const isThere = createTitleSearch();
    const named = mutants.flatMap(({ killedBy }) => killedBy ?? []);
    assert.deepEqual(
      named.filter((killing) => !isThere(killing)),
      [],
    );
    assert.equal(isThere({ file: 'test/mutants/mutants.test.ts', title: 'each names' }), false);
  });

  test('the table of docs/simulation.md is that of this list', () => {
    const document = readFileSync(new URL('../../docs/simulation.md', import.meta.url), 'utf8');
    const rows = rowsIn(document);
    assert.deepEqual(
      rows.map((cells) => cells.slice(0, 3)),
      mutants.map(cellsOf),
      'npm run mutants writes it',
    );
    for (const [name = '', , , how = ''] of rows) assert.match(how, /\w/, name);
  });

  // One of each kind: what is delivered, who delivers, when. All of them: npm run mutants
  for (const fault of [
    'a settle that may repeat',
    'a lease judged by the wall clock',
    'events that are found by polling only',
  ]) {
    test(`the simulation finds ${fault}`, { tags: ['long'] }, async () => {
      const { violation } = await search({ from: 0, to: 2000, threads: 2, fault });
      assert.ok(violation);
    });
  }

  test('a test finds a mutant of its file, and passes without it', async () => {
    const mutant = mutants.find(({ name }) => name === 'no quarter of the slots for fresh events');
    assert.ok(mutant?.killedBy);
    const without = await runTest(mutant.killedBy);
    assert.deepEqual([without.failed.length, without.passed.length > 0], [0, true], without.errors);
    const killed = await runTest(mutant.killedBy, mutant.name);
    assert.ok(killed.failed.length > 0, killed.errors);
  });
});
