import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { NewEvent, Stream } from '../../src/core/types.ts';
import { ok, respondedWith, type ScriptedPost } from '../helpers/transport.ts';
import { newEvent } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture, type FixtureOptions } from './fixture.ts';

export const orderBy = '/data/user';

/** A stream that sends in order, and the names of its events. */
export interface OrderFixture extends DeliveryFixture {
  readonly stream: Stream;
  /** Appends one event for each user, in this order; `-` is an event without a user. */
  publishFor(users: string): Promise<void>;
  /** Returns the users with the number of their event, of the posts that are open. */
  openNames(): string[];
  /** Returns the same of all posts, in the order of their begin. */
  sentNames(): string[];
  /** Ends the open post of this name. */
  end(name: string, status?: number): Promise<void>;
  nameOf(post: ScriptedPost): string;
}

/** Creates a stream ordered by user, and runs the dispatcher. */
export async function orderFixture(
  t: TestContext,
  options: FixtureOptions & { delivery?: Stream['delivery'] } = {},
): Promise<OrderFixture> {
  const fixture = await createDeliveryFixture(t, { respond: () => undefined, ...options });
  const stream = await fixture.addStream({ delivery: { orderBy, ...options.delivery } });
  await fixture.start();
  const names = new Map<string, string>();
  const counts = new Map<string, number>();
  const nameOf = ({ eventId }: ScriptedPost): string => names.get(eventId) ?? '';
  const eventFor = (user: string): NewEvent => {
    const count = (counts.get(user) ?? 0) + 1;
    counts.set(user, count);
    const data = user === '-' ? {} : { user };
    const event = newEvent({ time: fixture.clock.now(), body: JSON.stringify({ data }) });
    names.set(event.id, `${user}${count}`);
    return event;
  };
  return Object.assign(fixture, {
    stream,
    nameOf,
    publishFor: async (users: string) => {
      await fixture.store.log.append(fixture.tenant, users.split('').map(eventFor));
      await fixture.clock.advance(0);
    },
    openNames: () => fixture.transport.open.map(nameOf),
    sentNames: () => fixture.transport.posts.map(nameOf),
    end: async (name: string, status = 204) => {
      const post = fixture.transport.open.find((each) => nameOf(each) === name);
      assert.ok(post, `${name} is under way`);
      post.end(status === 204 ? ok : respondedWith(status));
      await fixture.clock.advance(20);
    },
  });
}
