import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { claimDue, failed, type Fixture, fixtureOf } from '../store/contract/fixture.ts';
import { type ApiFixture, type ApiResponse, openApiFixture } from './fixture.ts';
import { dismissAll, doneDismissal, type FailingStream, failingStream } from './failure-work.ts';

let fixture: ApiFixture;
let storeFixture: Fixture;

before(async () => {
  fixture = await openApiFixture({ disableTotal: 3 });
  storeFixture = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
});
after(() => fixture.close());

const failing = (...statuses: readonly number[]): Promise<FailingStream> =>
  failingStream(storeFixture, statuses);

const send = (body: object) => fixture.send('POST', '/dismissals', body);

/** Sends a request, and returns its response, or its progress once it is done. */
async function dismiss(body: object): Promise<ApiResponse> {
  const response = await send(body);
  return response.status === 202 ? doneDismissal(fixture, response.body.id) : response;
}

describe('dismissals', () => {
  beforeEach(async () => {
    await dismissAll(fixture);
  });

  test('dismissals: closes the failures of a stream, returns at once with the total, and shows the progress', async () => {
    const { stream, ids } = await failing(503, 503);
    const other = await failing(503);
    await fixture.send('POST', `/event-streams/${stream.id}/redeliver/${ids[0]}`);
    const response = await send({ event_stream_ids: [stream.id] });
    const { id, status, total, created_at: createdAt, created_by: createdBy } = response.body;
    assert.equal(response.status, 202);
    assert.deepEqual([status, total], ['running', 2]);
    const done = await doneDismissal(fixture, id);
    const counts = { status: 'done', total: 2, dismissed: 1, skipped: 1, reopened: 0 };
    const created = { created_at: createdAt, created_by: createdBy };
    assert.deepEqual([done.status, done.body], [200, { id, ...counts, ...created }]);
    assert.match(id, /^dsm_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.ok(createdAt && createdBy);
    assert.deepEqual(await storeFixture.health(stream), { consecutive: 2, total: 1 });
    assert.deepEqual(await storeFixture.health(other.stream), { consecutive: 1, total: 1 });
  });

  test('dismissals: a dismissed failure is 404 to read and 409 to redeliver', async () => {
    const { stream, ids } = await failing(503);
    const [event = ''] = ids;
    const response = await dismiss({ event_stream_ids: [stream.id], event_ids: [event] });
    assert.equal(response.body.dismissed, 1);
    const path = `/event-streams/${stream.id}`;
    assert.equal((await fixture.send('GET', `${path}/deliveries/${event}`)).status, 404);
    const redelivered = await fixture.send('POST', `${path}/redeliver/${event}`);
    assert.equal(redelivered.status, 409);
    assert.equal(redelivered.body.errorCode, 'not_redeliverable');
    assert.match(redelivered.body.message, /dismissed/);
  });

  test('dismissals: a dry run counts in groups, and its failed_to leaves out later failures', async () => {
    const { stream, owned } = await failing(503, 410, 503);
    const body = { event_stream_ids: [stream.id], error_codes: ['http_503'] };
    const counted = await dismiss({ ...body, dry_run: true });
    assert.equal(counted.status, 200);
    const {
      count,
      groups,
      failed_to: failedTo,
    } = counted.body as unknown as {
      count: number;
      groups: { name: string; error_code: string; count: number }[];
      failed_to: string;
    };
    assert.equal(count, 2);
    assert.deepEqual(
      groups.map((group) => [group.name, group.error_code, group.count]),
      [[stream.name, 'http_503', 2]],
    );
    assert.equal((await storeFixture.health(stream)).total, 3);
    storeFixture.now += 1000;
    const [later] = await storeFixture.publish('user.created');
    assert.ok(later);
    await storeFixture.settle(owned, { cursor: later.offset, outcomes: [failed(later)] });
    const response = await dismiss({ ...body, failed_to: failedTo });
    assert.equal(response.body.dismissed, 2);
    assert.equal((await storeFixture.health(stream)).total, 2);
  });

  test('dismissals: all streams of the tenant with all: true, nothing is sent', async () => {
    const one = await failing(503);
    const two = await failing(404, 503);
    const response = await dismiss({ all: true });
    assert.equal(response.body.dismissed, 3);
    for (const { stream, owned } of [one, two]) {
      assert.equal((await storeFixture.health(stream)).total, 0);
      assert.deepEqual((await claimDue(storeFixture, owned)).rows, []);
    }
    assert.equal((await dismiss({ all: true })).body.dismissed, 0);
  });

  test('dismissals: 400 unless something is selected, and for event_ids without one stream', async () => {
    const { stream, ids } = await failing(503);
    for (const body of [
      {},
      { dry_run: true },
      { all: false },
      { event_ids: ids },
      { event_ids: ids, event_stream_ids: [stream.id, stream.id] },
      { event_stream_ids: [] },
      { error_codes: ['http_099'] },
      { error_codes: ['busy'] },
      { failed_from: 'yesterday' },
      { date_from: '2026-03-02T00:00:00Z', date_to: '2026-03-01T00:00:00Z' },
    ]) {
      assert.equal((await dismiss(body)).status, 400, JSON.stringify(body));
    }
    assert.equal((await storeFixture.health(stream)).total, 1);
  });

  test('dismissals: reopen is 202, and the failures are open again', async () => {
    const { stream, ids } = await failing(503, 503);
    const { id } = (await dismiss({ event_stream_ids: [stream.id] })).body;
    const response = await fixture.send('POST', `/dismissals/${id}/reopen`);
    assert.deepEqual(
      [response.status, response.body.id, response.body.status],
      [202, id, 'running'],
    );
    const { body } = await doneDismissal(fixture, id);
    assert.deepEqual([body.dismissed, (body as { reopened?: number }).reopened], [2, 2]);
    assert.equal((await storeFixture.health(stream)).total, 2);
    const read = await fixture.send('GET', `/event-streams/${stream.id}/deliveries/${ids[0]}`);
    assert.equal(read.status, 200);
    const unknown = await fixture.send('POST', '/dismissals/dsm_AAAAAAAAAAAAAAAAAAAAAA/reopen');
    const message = 'The dismissal does not exist: dsm_AAAAAAAAAAAAAAAAAAAAAA';
    assert.deepEqual([unknown.status, unknown.body.message], [404, message]);
  });

  test('dismissals: reopen is 409 at the limit of open failures, and 202 once the stream is disabled', async () => {
    const { stream } = await failing(503, 503, 503);
    const { id } = (await dismiss({ event_stream_ids: [stream.id] })).body;
    const reopen = () => fixture.send('POST', `/dismissals/${id}/reopen`);
    const refused = await reopen();
    assert.deepEqual([refused.status, refused.body.errorCode], [409, 'too_many_failures']);
    assert.match(
      refused.body.message,
      new RegExp(`${stream.id} would have 3 open failures or more`),
    );
    assert.match(refused.body.message, /Disable it, then repeat the request/);
    // The operation would wait for the owner, which is none here.
    await fixture.auth.store.streams.update(stream.tenant, stream.id, (was) => ({
      after: { ...was, status: 'disabled' },
    }));
    assert.equal((await reopen()).status, 202);
    await doneDismissal(fixture, id);
    assert.equal((await storeFixture.health(stream)).total, 3);
    const enabled = { status: 'enabled' };
    const early = await fixture.send('PATCH', `/event-streams/${stream.id}`, enabled);
    assert.deepEqual([early.status, early.body.errorCode], [409, 'too_many_failures']);
  });

  test('dismissals: an unknown stream and an unknown dismissal are 404', async () => {
    const unknown = { event_stream_ids: ['est_AAAAAAAAAAAAAAAAAAAAAA'] };
    assert.equal((await dismiss(unknown)).status, 404);
    const read = await fixture.send('GET', '/dismissals/dsm_AAAAAAAAAAAAAAAAAAAAAA');
    assert.equal(read.body.message, 'The dismissal does not exist: dsm_AAAAAAAAAAAAAAAAAAAAAA');
  });
});
