import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { catalogue } from '../../src/core/catalogue.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

async function openFixtureFor(t: TestContext): Promise<ApiFixture> {
  const fixture = await openApiFixture();
  t.after(() => fixture.close());
  return fixture;
}

interface Shown {
  readonly type: string;
  readonly catalogue: boolean;
  readonly last_seen_at: string | null;
  readonly sample: object | null;
}

async function publish(fixture: ApiFixture, type: string, data: object): Promise<void> {
  const response = await fixture.send('POST', '/events', { type, data });
  assert.equal(response.status, 202, response.text);
}

/** Reads all pages. */
async function all(fixture: ApiFixture, take: number): Promise<Shown[]> {
  const types: Shown[] = [];
  for (let next: string | undefined = ''; next !== undefined;) {
    const from = next === '' ? '' : `&from=${encodeURIComponent(next)}`;
    const response = await fixture.send('GET', `/event-types?take=${take}${from}`);
    assert.equal(response.status, 200, response.text);
    assert.ok(response.body.types.length <= take);
    types.push(...response.body.types);
    ({ next } = response.body);
  }
  return types;
}

describe('GET /event-types', () => {
  test('a cursor of another list, and a page that is too large, are 400', async (t) => {
    const fixture = await openFixtureFor(t);
    for (const query of ['?from=x', '?from=MTI', '?take=101', '?take=0']) {
      const response = await fixture.send('GET', `/event-types${query}`);
      assert.equal(response.status, 400, query);
    }
  });

  test('a tenant without events has the predefined types with samples, in one order over all pages', async (t) => {
    const fixture = await openFixtureFor(t);
    const types = await all(fixture, 7);
    assert.deepEqual(
      types.map(({ type }) => type),
      [...catalogue].toSorted((one, other) => (one < other ? -1 : 1)),
    );
    for (const { type, catalogue: isPredefined, last_seen_at: seenAt, sample } of types) {
      assert.ok(isPredefined && seenAt === null && sample !== null && 'object' in sample, type);
    }
  });

  test('samples are the same all day, so that what has not changed is 304', async (t) => {
    const fixture = await openFixtureFor(t);
    const first = await fixture.send('GET', '/event-types');
    fixture.auth.clock.move(1000);
    const known = { 'if-none-match': first.headers.get('etag') ?? '' };
    assert.equal((await fixture.send('GET', '/event-types', undefined, known)).status, 304);
  });

  test('own types come with the data of their newest event, predefined ones with when they were seen', async (t) => {
    const fixture = await openFixtureFor(t);
    await publish(fixture, 'order.paid', { n: 1 });
    await publish(fixture, 'order.paid', { n: 2 });
    await publish(fixture, 'user.created', { private: 'not shown' });
    await publish(fixture, 'report.made', { text: 'x'.repeat(10_000) });
    const exact = '{"id":1546130668394913822,"price":1.10,"limit":1e400,"zero":-0}';
    const sent = await fixture.send('POST', '/events', `{"type":"sum.made","data":${exact}}`);
    assert.equal(sent.status, 202, sent.text);
    const { text } = await fixture.send('GET', '/event-types?take=100');
    assert.ok(text.includes(`"sample":${exact}`), 'with the numbers as they were sent');
    const types = new Map((await all(fixture, 4)).map((row) => [row.type, row]));
    assert.equal(types.size, catalogue.length + 3);
    const at = '2026-03-01T09:30:00.000Z';
    assert.deepEqual(types.get('order.paid'), {
      type: 'order.paid',
      catalogue: false,
      last_seen_at: at,
      sample: { n: 2 },
    });
    const user = types.get('user.created');
    assert.deepEqual([user?.catalogue, user?.last_seen_at], [true, at]);
    assert.ok(user?.sample && !('private' in user.sample));
    assert.deepEqual(types.get('report.made')?.sample, null, 'larger than 8 KiB');
  });
});
