import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { migrationsOf } from '../../../src/store/migrate.ts';
import { defineTestKey } from '../../../src/store/engine/sqlite/attempts.ts';

/**
 * SQLite has no statistics here, and hardly prefers an index for its second column: a statement may
 * scan all open deliveries of a tenant although an index fits it.
 */
test('SQLite: no statement scans all deliveries, or those of a tenant, for some of a stream', () => {
  const db = new DatabaseSync(':memory:');
  defineTestKey(db);
  db.function('leat_now', () => 0);
  for (const { sql } of migrationsOf('sqlite')) db.exec(sql);
  const walks = /^(?:SCAN deliveries\b|SEARCH deliveries\b.*\(tenant=\?\)$)/;
  const ofStream = /\bstream = \?/;
  const otherStreams = /^SEARCH deliveries\b(?!.*\b(?:stream|event_id)=\?)/;
  // The index by offset leads to all failures of a stream as well, of which it may have thousands.
  const ofDueRows = /\bdue_at is not null\b/;
  const byStreamAlone = /^SEARCH deliveries\b.*_offset \(tenant=\? AND stream=\?\)$/;
  const found = statements();
  assert.ok(found.length > 20, `${found.length} statements were found`);
  for (const { location, sql } of found) {
    const plan = db.prepare(`explain query plan ${sql}`).all();
    const steps = plan.map(({ detail }) => withTable(sql, String(detail)));
    assert.deepEqual(
      steps.filter(
        (step) =>
          walks.test(step) ||
          (ofStream.test(sql) && otherStreams.test(step)) ||
          (ofDueRows.test(sql) && byStreamAlone.test(step)),
      ),
      [],
      location,
    );
  }
  db.close();
});

/**
 * SQLite copies each page before a statement changes it, when the statement might fail half way with
 * what it did undone: by a constraint with `abort`, or in a function. That costs more than the statement.
 */
test('SQLite: statements that settle failures, with their triggers, have nothing to undo', () => {
  for (const { location, steps } of settlingSteps()) {
    const undone = steps.filter(
      ({ opcode, p1, p2 }) =>
        opcode === 'Function' ||
        opcode === 'PureFunc' ||
        (String(opcode).startsWith('Halt') && p1 !== 0 && p2 === onAbort),
    );
    assert.deepEqual(undone, [], location);
  }
});

/**
 * The result of a `select`, where the table has triggers, and the values of an `in` in a check are first
 * written to a table in memory: at each of these statements, which write one row.
 */
test('SQLite: statements that settle failures fill no table in memory', () => {
  for (const { location, steps } of settlingSteps()) {
    assert.deepEqual(
      steps.filter(({ opcode }) => opcode === 'OpenEphemeral'),
      [],
      location,
    );
  }
});

/** Returns the steps of the statements that settle failures, those of their triggers included. */
function settlingSteps() {
  const db = new DatabaseSync(':memory:');
  defineTestKey(db);
  for (const { sql } of migrationsOf('sqlite')) db.exec(sql);
  const settling = statements().filter(({ sql }) => /^\s*(?:insert|update) or fail\b/.test(sql));
  const found = settling.map(({ location, sql }) => ({
    location,
    steps: db.prepare(`explain ${sql}`).all(),
  }));
  db.close();
  assert.equal(found.length, 2);
  for (const { steps } of found) assert.ok(steps.length > 100, 'those of the triggers are listed');
  return found;
}

/** The code of `abort` among the ways to resolve a conflict (OE_Abort in sqliteInt.h). */
const onAbort = 2;

const sources = new URL('../../../src/', import.meta.url);

/** Returns the statements of the store that name the deliveries, read from its sources. */
function statements(): { readonly location: string; readonly sql: string }[] {
  return ['store/engine/sqlite/', 'store/commands/'].flatMap((folder) =>
    globSync('*.ts', { cwd: new URL(folder, sources) }).flatMap((name) => {
      const source = readFileSync(new URL(name, new URL(folder, sources)), 'utf8');
      return [...source.matchAll(/\b(?:db|tx|sql)\.(?:all|get|run)(?:<[^`]*?>)?`([^`]*)`/g)]
        .filter(([, text = '']) => /\bdeliveries\b/.test(text))
        .map(({ 1: text = '', index }) => ({
          location: `${folder}${name}:${source.slice(0, index).split('\n').length}`,
          sql: text.replaceAll(/\$\{((?:[^{}]|\{[^{}]*\})*)\}/g, (_whole, value: string) =>
            inSqlite(value),
          ),
        }));
    }),
  );
}

/** Returns a step of a plan with the name of the table where it has another one of the deliveries. */
function withTable(sql: string, step: string): string {
  const others = [...sql.matchAll(/\bdeliveries (?:indexed by \w+ )?(?:as )?([a-z])\b/g)];
  return step.replace(/(?<=^(?:SCAN|SEARCH) )\w+/, (name) =>
    others.some(([, other]) => other === name) ? 'deliveries' : name,
  );
}

/** Returns what a value of a template is in the statement: a fragment has a text of its own. */
function inSqlite(value: string): string {
  if (/^oneOf\w*\(/.test(value)) return 'in (select value from json_each(?))';
  if (value.startsWith('amongOffsets('))
    return 'and e."offset" in (select value from json_each(?))';
  if (value.startsWith('amongStreams('))
    return '(select value ->> 0, value ->> 1 from json_each(?))';
  if (value.startsWith('listedRows(')) return 'json_each(?) as listed';
  if (value === 'endWithStream') return "kind in ('first', 'test')";
  if (value === 'needsOwner')
    return "(s.status = 'enabled' or exists (select 1 from deliveries d indexed by deliveries_due where d.tenant = s.tenant and d.stream = s.id and d.due_at is not null and d.kind <> 'replay'))";
  if (value.startsWith('beginsCycle(')) return "kind = 'redelivery', due_at = ?";
  if (value === 'jsonRow') return 'json_array';
  if (value === 'byOrder') return 'indexed by deliveries_order';
  if (value === 'rowAsJson') return 'json_array(event_id)';
  if (value === 'latest') return 'cast(listed.value ->> 2 as integer)';
  if (value === 'kinds') return 'listed.value ->> 3';
  if (value.startsWith('amongRows('))
    return '(select value ->> 0, value ->> 1, value ->> 2 from json_each(?))';
  if (value === 'byDue') return 'indexed by deliveries_due';
  if (value === 'byStream') return 'indexed by deliveries_offset';
  if (value === 'byReplay') return 'indexed by deliveries_replay';
  if (value === 'byState') return 'indexed by deliveries_waiting';
  if (value === 'positionIn') return 'instr';
  if (value === 'jsonList') return 'json_group_array';
  if (value.startsWith('selects(')) return 'd.time >= ? and +d.listed_at >= ? and +d.listed_at < ?';
  if (value.startsWith('listedGroups('))
    return '(select ? as stream, ? as code, ? as count, ? as last_event)';
  if (value === 'eachDelivery') return 'cross join deliveries d where';
  if (value === 'rowColumns') return 'd.event_id';
  if (value === 'columnsOfStream') return 's.*';
  const isEmpty =
    /^(?:entryAt\(|forUpdate$|newDays\(|daysOf\(|dayColumns?$|dayOfEvent$|inDays$|endOfEach$|columns$)/;
  return isEmpty.test(value) ? '' : '?';
}
