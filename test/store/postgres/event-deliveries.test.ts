import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { withSelection } from '../../../src/core/subscription.ts';
import type { Stream } from '../../../src/core/types.ts';
import type { Commands } from '../../../src/store/commands/command.ts';
import { createEventDeliveries } from '../../../src/store/commands/event-deliveries.ts';
import { createReadCache } from '../../../src/store/commands/read-cache.ts';
import type { EventDeliveries } from '../../../src/store/port/event-log.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import { createCommands } from '../../../src/store/engine/postgres/commands.ts';
import { purposesOf } from '../../../src/store/engine/sqlite/commands.ts';
import { createDatabase } from '../../../src/store/engine/postgres/database.ts';
import { createHosts } from '../../../src/store/engine/postgres/hosts.ts';
import { createStoreIdentity } from '../../../src/store/engine/postgres/identity.ts';
import { dismissFailures } from '../contract/failure-work.ts';
import {
  addTenant,
  delivered,
  failed,
  type Fixture,
  fixtureOf,
  type LoggedEvent,
  parked,
  retry,
  start,
} from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

/** An event at one stream that another connection changes while it is read. */
interface Case {
  readonly fixture: Fixture;
  readonly stream: Stream;
  readonly owned: OwnedStream;
  readonly event: LoggedEvent;
}

type Step = (one: Case) => Promise<unknown>;

const nothing: Step = () => Promise.resolve();

const settling =
  (outcome: (event: LoggedEvent) => ReturnType<typeof delivered>, passes = false): Step =>
  ({ fixture, owned, event }) =>
    fixture.settle(owned, {
      ...(passes ? { cursor: event.offset } : {}),
      outcomes: [outcome(event)],
    });

const changing =
  (change: (before: Stream, head: number) => Stream, resume?: 'latest'): Step =>
  ({ fixture, stream }) =>
    fixture.store.streams.update(fixture.tenant, stream.id, (before, { head }) => ({
      after: change(before, head),
      resume,
    }));

const retried = settling((event) => retry(event), true);
const failedOnce = settling((event) => failed(event), true);
const redelivered: Step = ({ fixture, stream, event }) =>
  fixture.store.deliveries.redeliver(fixture.tenant, stream.id, event.id);
const deleted: Step = ({ fixture, stream }) =>
  fixture.store.streams.delete(fixture.tenant, stream.id);
const dismissed: Step = ({ fixture, stream }) =>
  dismissFailures(fixture.store, fixture.tenant, stream.id);
const disabled = changing((before) => ({ ...before, status: 'disabled' }));
const others = changing((before, head) => ({
  ...before,
  subscriptions: withSelection(before.subscriptions, { types: ['other.type'] }, head),
}));
const second = { hasRow: true, attempt: 2 } as const;

/** What happens before the read, and while it runs. */
const changes: readonly (readonly [title: string, before: Step, during: Step])[] = [
  ['a first success', nothing, settling((event) => delivered(event), true)],
  ['a success above the cursor', nothing, settling((event) => delivered(event))],
  ['a first failed attempt', nothing, settling((event) => retry(event))],
  ['a first failed attempt that is passed', nothing, retried],
  ['a slow attempt', nothing, settling((event) => parked(event))],
  ['a success after a retry', retried, settling((event) => delivered(event, second))],
  ['another retry', retried, settling((event) => retry(event, { ...second, delayMs: 9000 }))],
  ['the last failed attempt', retried, settling((event) => failed(event, second))],
  ['a dismissal', failedOnce, dismissed],
  ['a redelivery', failedOnce, redelivered],
  ['disabling', retried, disabled],
  ['skipping', disabled, changing((before) => ({ ...before, status: 'enabled' }), 'latest')],
  ['another selection', settling((event) => delivered(event), true), others],
  ['another selection before it is sent', nothing, others],
  ['deleting the stream', settling((event) => delivered(event), true), deleted],
  ['deleting the stream of a failure', failedOnce, deleted],
];

/** More than a read has, so that the change also comes after it. */
const gaps = 12;

async function openCases(t: TestContext) {
  const url = await newDatabase();
  const time = { at: start };
  const store = await openUrl(url, time);
  const db = createDatabase({ hosts: createHosts(url, 'test'), connectionsMax: 3 });
  t.after(async () => {
    await db.close();
    await store.close();
  });
  let made = 0;
  const create = async (): Promise<Case> => {
    made += 1;
    const { id } = await addTenant(store, `tenant${made}`);
    const fixture = fixtureOf(store, id, time);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    return { fixture, stream, owned, event };
  };
  return {
    create,
    commands: createCommands(
      db,
      createStoreIdentity({ emit: () => undefined, random: randomBytes }),
    ),
  };
}

const emptyCache = () => createReadCache(() => undefined);

async function readWith(
  commands: Commands,
  { fixture, event }: Case,
  readCache = emptyCache(),
): Promise<EventDeliveries> {
  const { store, tenant } = fixture;
  const found = await store.eventLog.find(tenant, event.id);
  assert.ok(found);
  const read = createEventDeliveries({ on: purposesOf(commands), readCache });
  return read(tenant, found, { after: undefined, take: 100 });
}

/** Returns commands that let something happen before one of their reads. */
function interrupted(commands: Commands, gap: number, during: () => Promise<unknown>): Commands {
  let reads = 0;
  return {
    ...commands,
    read: async (command) => {
      reads += 1;
      if (reads === gap) await during();
      return commands.read(command);
    },
  };
}

describe('what became of an event, read while it changes', () => {
  for (const [title, before, during] of changes) {
    for (const isKnown of [false, true]) {
      const name = isKnown ? `${title}, of a stream that is known,` : title;
      test(
        `${name} during the read: what was before it, or all of what is after it`,
        { tags: ['long'] },
        async (t) => {
          const { create, commands } = await openCases(t);
          for (let gap = 1; gap <= gaps; gap += 1) {
            const one = await create();
            await before(one);
            const readCache = emptyCache();
            const former = await readWith(commands, one, readCache);
            let isDone = false;
            const act = async () => {
              isDone = true;
              await during(one);
            };
            const cache = isKnown ? readCache : emptyCache();
            const read = await readWith(interrupted(commands, gap, act), one, cache);
            if (!isDone) await act();
            const later = await readWith(commands, one);
            const isWhole = isDeepStrictEqual(read, former) || isDeepStrictEqual(read, later);
            assert.ok(isWhole, `before read ${gap}: ${JSON.stringify(read)}`);
            assert.deepEqual(await readWith(commands, one, cache), later);
          }
        },
      );
    }
  }
});
