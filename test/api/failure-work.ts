import assert from 'node:assert/strict';
import type { Stream } from '../../src/core/types.ts';
import type { OwnedStream } from '../../src/store/port/ownership.ts';
import { waitFor } from '../helpers/wait.ts';
import { failed, type Fixture } from '../store/contract/fixture.ts';
import type { ApiFixture, ApiResponse } from './fixture.ts';

/** Waits until a dismissal is done, and returns it. */
export async function doneDismissal(
  fixture: Pick<ApiFixture, 'send'>,
  id: string,
): Promise<ApiResponse> {
  let read = await fixture.send('GET', `/dismissals/${id}`);
  await waitFor('the dismissal', async () => {
    read = await fixture.send('GET', `/dismissals/${id}`);
    return read.body.status === 'done';
  });
  return read;
}

/** Dismisses every failure of the tenant. */
export async function dismissAll(fixture: Pick<ApiFixture, 'send'>): Promise<void> {
  const { body } = await fixture.send('POST', '/dismissals', { all: true });
  await doneDismissal(fixture, body.id);
}

/** A stream of which events have failed. */
export interface FailingStream {
  readonly stream: Stream;
  readonly owned: OwnedStream;
  /** In the order in which they failed, with their ids. */
  readonly events: Awaited<ReturnType<Fixture['publish']>>;
  readonly ids: readonly string[];
}

/** Creates a stream whose events failed with these statuses, one per second. */
export async function failingStream(
  store: Fixture,
  statuses: readonly number[],
): Promise<FailingStream> {
  const stream = await store.addStream({ types: ['user.created'] });
  const owned = await store.own(stream);
  const events: FailingStream['events'] = [];
  for (const status of statuses) {
    store.now += 1000;
    const [event] = await store.publish('user.created');
    assert.ok(event);
    const outcomes = [failed(event, { status, error: `${status} - no` })];
    await store.settle(owned, { cursor: event.offset, outcomes });
    events.push(event);
  }
  return { stream, owned, events, ids: events.map(({ id }) => id) };
}
