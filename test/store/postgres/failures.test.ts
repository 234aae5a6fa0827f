import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { KIB, MIB } from '../../../src/core/units.ts';
import { type FailureRow, firstFailures } from '../../../src/store/commands/failures.ts';
import { createFailureGroups } from '../../../src/store/commands/failure-groups.ts';
import { createCommands } from '../../../src/store/engine/postgres/commands.ts';
import { purposesOf } from '../../../src/store/engine/sqlite/commands.ts';
import { createDatabase, type Database } from '../../../src/store/engine/postgres/database.ts';
import { createFailureReader } from '../../../src/store/engine/postgres/failures.ts';
import { createHosts } from '../../../src/store/engine/postgres/hosts.ts';
import { createStoreIdentity } from '../../../src/store/engine/postgres/identity.ts';
import { sharedPostgres } from '../../helpers/postgres.ts';
import { addTenant, failed, type Fixture, fixtureOf, newEvent } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

const count = 20;
const large = 'x'.repeat(250 * KIB);

/** Failures of one stream, oldest first, with this body and this error. */
async function failures(
  t: TestContext,
  content: Content,
): Promise<{
  readonly db: Database;
  readonly rows: readonly FailureRow[];
  readonly tenant: number;
}> {
  const url = await newDatabase();
  const store = await openUrl(url);
  const db = createDatabase({ hosts: createHosts(url, 'test'), connectionsMax: 2 });
  t.after(async () => {
    await db.close();
    await store.close();
    await (await sharedPostgres()).dropDatabase(url);
  });
  const fixture = fixtureOf(store, (await addTenant(store, 'main')).id);
  await fail(fixture, content);
  const rows = await db.all<FailureRow>`
    select d.*, r.key from deliveries d join runs r on r.tenant = d.tenant and r.stream = d.stream
    order by d."offset"`;
  assert.equal(rows.length, content.total ?? count);
  return { db, rows, tenant: fixture.tenant };
}

interface Content {
  readonly body: string;
  readonly error: string;
  readonly total?: number;
}

async function fail(fixture: Fixture, { body, error, total = count }: Content): Promise<void> {
  const owned = await fixture.own(await fixture.addStream());
  const events = Array.from({ length: total }, () => newEvent({ body }));
  const appended = await fixture.store.log.append(fixture.tenant, events);
  const outcomes = events.map(({ id, type, time }, index) =>
    failed({ id, type, time, body, offset: appended[index]?.offset }, { error }),
  );
  await fixture.settle(owned, { cursor: appended.at(-1)?.offset ?? 0, outcomes });
}

for (const [name, content] of Object.entries({
  bodies: { body: large, error: 'no' },
  histories: { body: '{}', error: large },
})) {
  test(`PostgreSQL: failures with large ${name} are read in pieces, and all with small ones at once`, async (t) => {
    const { db, rows } = await failures(t, content);
    const { read } = createFailureReader(db);
    const piece = await read(rows);
    assert.ok(piece.length > 1 && piece.length * large.length <= 2 * MIB, `${piece.length}`);
    assert.deepEqual(
      piece.map((one) => [one?.event.id, one?.event.body, one?.attempts.map(({ error }) => error)]),
      rows.slice(0, piece.length).map((row) => [row.event_id, content.body, [content.error]]),
    );
    const { body, error } = { body: '{}', error: 'no' };
    await db.run`update events set body = ${body}`;
    await db.run`update attempts set error = ${error}`;
    assert.equal((await read(rows)).length, count);
  });
}

for (const [name, dayOf] of Object.entries({
  'in order': (index: number) => 10 * (count - index),
  'of which the first and the last are of one': (index: number) =>
    index === 0 || index > 12 ? 10 : 10 * (index + 1),
})) {
  test(`PostgreSQL: of large failures of many days ${name} no more is read than a piece`, async (t) => {
    const { db, rows } = await failures(t, { body: large, error: large });
    // What is kept is found whatever days the rows name.
    await db.run`
      insert into kept_events (tenant, "offset", id, body)
      select tenant, "offset", id, body from events`;
    await db.run`update attempts set day = 0`;
    const days = rows.map((row, index) => {
      const day = dayOf(index);
      return { ...row, event_day: day, attempts_from: day, attempts_to: day };
    });
    let bytes = 0;
    const all: Database['all'] = async (strings, ...values) => {
      const found = await db.all<never>(strings, ...values);
      bytes += JSON.stringify(found).length;
      return found;
    };
    const { read } = createFailureReader({ ...db, all });
    const ids: (string | undefined)[] = [];
    const piece = async (): Promise<number> => {
      const found = await read(days.slice(ids.length));
      ids.push(...found.map((one) => one?.event.id));
      return found.length;
    };
    const length = await piece();
    assert.ok(length > 1 && length * large.length <= 2 * MIB, `${length}`);
    // Bodies and as many of histories, each once more where the first days have later rows too.
    assert.ok(bytes <= 8 * MIB, `${bytes}`);
    while (ids.length < days.length) await piece();
    assert.deepEqual(
      ids,
      rows.map((row) => row.event_id),
    );
  });
}

test('PostgreSQL: failures without a history or a body do not end what is read', async (t) => {
  const { db, rows } = await failures(t, { body: '{}', error: 'no' });
  const { read } = createFailureReader(db);
  const [first, middle, last] = [rows[0], rows[10], rows.at(-1)];
  assert.ok(first && middle && last);
  for (const { offset } of [first, middle, last])
    await db.run`delete from attempts where event_key = ${offset}`;
  const lengths = async () => (await read(rows)).map((one) => one?.attempts.length);
  const expected = rows.map((row) => ([first, middle, last].includes(row) ? 0 : 1));
  assert.deepEqual(await lengths(), expected);
  for (const { offset } of [first, last])
    await db.run`delete from events where "offset" = ${offset}`;
  assert.deepEqual(await lengths(), [undefined, ...expected.slice(1, -1), undefined]);
});

test('PostgreSQL: a page has at least one failure, after one that was delivered in the meantime too', async (t) => {
  const { db, rows } = await failures(t, { body: '{}', error: 'no' });
  const [first, second] = rows;
  assert.ok(first && second);
  await db.run`delete from events where "offset" = ${first.offset}`;
  const page = await firstFailures(rows, { take: count, bytesMax: 1 }, createFailureReader(db));
  assert.deepEqual(
    page.found.map(({ row }) => row.event_id),
    [second.event_id],
  );
  assert.equal(page.last, second);
});

test('PostgreSQL: groups take as many searches for many failures as for few, without statistics of the table', async (t) => {
  const { db, rows, tenant } = await failures(t, { body: '{}', error: 'no', total: 3000 });
  let loops = 0;
  const explain: Database['all'] = async (strings, ...values) => {
    const [first = '', ...others] = strings;
    if (strings.some((part) => part.includes('first_failed_at'))) {
      const texts = [`explain (analyze) ${first}`, ...others];
      const explained = Object.assign(texts, { raw: texts }) as unknown as TemplateStringsArray;
      const plan = await db.all<{ 'QUERY PLAN': string }>(explained, ...values);
      const found = plan.flatMap((line) => [...line['QUERY PLAN'].matchAll(/loops=(\d+)/g)]);
      loops = Math.max(...found.map(([, times]) => Number(times)));
    }
    return db.all<never>(strings, ...values);
  };
  const groups = createFailureGroups({
    on: purposesOf(
      createCommands(
        { ...db, all: explain },
        createStoreIdentity({ emit: () => undefined, random: randomBytes }),
      ),
    ),
    failures: createFailureReader(db),
  });
  const { items } = await groups(tenant, {
    after: undefined,
    take: 10,
    streams: undefined,
    codes: undefined,
  });
  assert.deepEqual(
    items.map(({ count: found, sample }) => [found, sample.eventId]),
    [[3000, rows.at(-1)?.event_id]],
  );
  assert.equal(loops, 1);
});
