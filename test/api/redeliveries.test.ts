import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { delivered, failed, type Fixture, fixtureOf } from '../store/contract/fixture.ts';
import { waitFor } from '../helpers/wait.ts';
import { dismissAll, type FailingStream, failingStream } from './failure-work.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
let storeFixture: Fixture;

before(async () => {
  fixture = await openApiFixture();
  storeFixture = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
});
after(() => fixture.close());

const failing = (...statuses: readonly number[]): Promise<FailingStream> =>
  failingStream(storeFixture, statuses);

/** Creates a stream with many failures. */
async function manyFailures(count: number) {
  const { stream, owned } = await failing();
  const events = await storeFixture.publish(...Array<string>(count).fill('user.created'));
  const cursor = events.at(-1)?.offset ?? 0;
  await storeFixture.settle(owned, { cursor, outcomes: events.map((event) => failed(event)) });
  return { stream, ids: events.map(({ id }) => id) };
}

const redeliver = (body: object) => fixture.send('POST', '/redeliveries', body);

/** Waits until accepted redeliveries have begun all their cycles. */
const begunAll = () =>
  waitFor('the cycles', async () => {
    const { redeliveries } = fixture.auth.store;
    return (await redeliveries.unfinished(1)).length === 0;
  });
const again = { kind: 'redelivery', hasRow: true } as const;

describe('redeliveries', () => {
  beforeEach(async () => {
    await dismissAll(fixture);
  });

  test('redeliveries: by cause over streams, with progress until they are done', async () => {
    const one = await failing(503, 404);
    const two = await failing(500);
    const ids = [one.stream.id, two.stream.id];
    const response = await redeliver({ event_stream_ids: ids, error_codes: ['http_5xx'] });
    const { id, created_at: createdAt, created_by: createdBy, ...progress } = response.body;
    assert.equal(response.status, 202);
    assert.match(id, /^rdl_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.ok(createdAt && createdBy);
    const begun = {
      status: 'running',
      total: 2,
      delivered: 0,
      failed: 0,
      skipped: 0,
      remaining: 2,
    };
    assert.deepEqual(progress, begun);
    await begunAll();
    const [first] = one.events;
    const [second] = two.events;
    assert.ok(first && second);
    await storeFixture.settle(one.owned, { outcomes: [delivered(first, again)] });
    await storeFixture.settle(two.owned, { outcomes: [failed(second, again)] });
    const { body } = await fixture.send('GET', `/redeliveries/${id}`);
    const counts = { status: body.status, delivered: body.delivered, failed: body.failed };
    assert.deepEqual(counts, { status: 'done', delivered: 1, failed: 1 });
    assert.equal(body.remaining, 0);
    const list = await fixture.send('GET', '/redeliveries');
    const listed = list.body.redeliveries.find((each: { id: string }) => each.id === id);
    assert.deepEqual(listed, body);
  });

  test('redeliveries: a dry run counts in groups, and its failed_to leaves out later failures', async () => {
    const { stream, owned } = await failing(503, 410, 503);
    const selected = { event_stream_ids: [stream.id], error_codes: ['http_503'] };
    const counted = await redeliver({ ...selected, dry_run: true });
    assert.equal(counted.status, 200);
    assert.equal(counted.body.count, 2);
    const [group] = counted.body.groups;
    assert.deepEqual([group.name, group.error_code, group.count], [stream.name, 'http_503', 2]);
    storeFixture.now += 1000;
    const [later] = await storeFixture.publish('user.created');
    assert.ok(later);
    await storeFixture.settle(owned, { cursor: later.offset, outcomes: [failed(later)] });
    const response = await redeliver({ ...selected, failed_to: counted.body.failed_to });
    assert.equal(response.body.total, 2);
  });

  test('redeliveries: a dry run until a time to come returns an end that leaves out later failures', async () => {
    const { stream, owned } = await failing(503);
    const selected = { event_stream_ids: [stream.id], failed_to: '2100-01-01T00:00:00Z' };
    const counted = await redeliver({ ...selected, dry_run: true });
    assert.equal(counted.body.count, 1);
    storeFixture.now += 1000;
    const [later] = await storeFixture.publish('user.created');
    assert.ok(later);
    await storeFixture.settle(owned, { cursor: later.offset, outcomes: [failed(later)] });
    const response = await redeliver({ ...selected, failed_to: counted.body.failed_to });
    assert.equal(response.body.total, 1);
  });

  test('redeliveries: the total is that of the acceptance, before any cycle begins, whatever the filter', async () => {
    const { stream, ids } = await manyFailures(1200);
    const selected = { event_stream_ids: [stream.id], event_types: ['user.created'] };
    const response = await redeliver(selected);
    assert.deepEqual([response.body.total, response.body.at_least], [1200, undefined]);
    const others = await redeliver({ ...selected, event_types: ['user.deleted'] });
    assert.deepEqual([others.body.status, others.body.total], ['done', 0]);
    const chosen = await redeliver({ ...selected, event_ids: ids.slice(0, 3) });
    assert.equal(chosen.body.total, 3);
    await begunAll();
    const { body } = await fixture.send('GET', `/redeliveries/${chosen.body.id}`);
    assert.deepEqual([body.status, body.total, body.skipped], ['done', 3, 3]);
  });

  test('redeliveries: failed_from later than failed_to is 400', async () => {
    const window = { failed_from: '2026-03-02T00:00:00Z', failed_to: '2026-03-01T00:00:00Z' };
    const { status, body } = await redeliver(window);
    assert.deepEqual(
      [status, body.message],
      [
        400,
        "Payload validation error: 'failed_from is later than failed_to' on property failed_from (Earliest time at which the failure was opened, inclusive).",
      ],
    );
  });

  test('redeliveries: DELETE cancels what has not begun; the failures stay', async () => {
    const { stream } = await failing(503, 503);
    const { body } = await redeliver({ event_stream_ids: [stream.id] });
    assert.equal(body.total, 2);
    await begunAll();
    assert.equal((await fixture.send('DELETE', `/redeliveries/${body.id}`)).status, 204);
    const read = await fixture.send('GET', `/redeliveries/${body.id}`);
    const { status, skipped, remaining } = read.body;
    assert.deepEqual([status, skipped, remaining], ['cancelled', 2, 0]);
    assert.equal((await storeFixture.health(stream)).total, 2);
    assert.equal((await fixture.send('DELETE', `/redeliveries/${body.id}`)).status, 204);
  });

  test('redeliveries: 400 without a selection, 404 for an unknown stream or redelivery', async () => {
    for (const body of [
      {},
      { dry_run: true },
      { error_codes: ['busy'] },
      { event_ids: ['evt_1'] },
    ]) {
      assert.equal((await redeliver(body)).status, 400, JSON.stringify(body));
    }
    const unknown = { event_stream_ids: ['est_AAAAAAAAAAAAAAAAAAAAAA'] };
    assert.equal((await redeliver(unknown)).status, 404);
    for (const method of ['GET', 'DELETE']) {
      const { status, body } = await fixture.send(
        method,
        '/redeliveries/rdl_AAAAAAAAAAAAAAAAAAAAAA',
      );
      assert.deepEqual(
        [status, body.message],
        [404, 'The redelivery does not exist: rdl_AAAAAAAAAAAAAAAAAAAAAA'],
      );
    }
  });
});
