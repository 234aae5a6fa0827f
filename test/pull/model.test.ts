import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parseOffset } from '../../src/core/offset.ts';
import type { Offset } from '../../src/core/types.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createManualClock } from '../helpers/clock.ts';
import { openScene, type PullScene, range, shown, Wire } from './fixture.ts';

const types = ['a.made', 'b.made', 'c.made'] as const;

/** How this process hears of events: as their own, as another's, of hints that are late, or not. */
type Heard = 'own' | 'head' | 'late' | 'late head' | 'no';

/** What may happen to a log and its readers, in any order. */
type Step =
  | {
      readonly kind: 'append';
      readonly of: readonly number[];
      readonly heard: Heard;
    }
  /** Hints that were late come, the last one first, each twice. */
  | { readonly kind: 'hear' }
  /** What the store answers from now on comes late, and then all at once. */
  | { readonly kind: 'hold' }
  | { readonly kind: 'answer' }
  | { readonly kind: 'prune'; readonly take: number }
  | {
      readonly kind: 'open';
      readonly reader: number;
      readonly filter: number;
      readonly back: number;
      readonly takes: boolean;
    }
  | { readonly kind: 'take'; readonly reader: number; readonly takes: boolean }
  | { readonly kind: 'drop'; readonly reader: number }
  | { readonly kind: 'wait'; readonly ms: number };

const filters: readonly (readonly string[] | undefined)[] = [
  undefined,
  ['a.made'],
  ['b.made', 'c.made'],
];
const readers = 3;
const reader = fc.nat(readers - 1);

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      of: fc.array(fc.nat(2), { minLength: 1, maxLength: 12 }),
      heard: fc.constantFrom<Heard>('own', 'own', 'own', 'head', 'late', 'late head', 'no'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Step>({ kind: 'hear' }, { kind: 'hold' }, { kind: 'answer' }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('prune' as const),
      take: fc.integer({ min: 1, max: 10 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('open' as const),
      reader,
      filter: fc.nat(filters.length - 1),
      back: fc.nat(20),
      takes: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('take' as const), reader, takes: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('drop' as const), reader }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.constantFrom(0, 0, 500, 6_000, 310_000),
    }),
  },
);

/** A client that comes back with its last id, and what it has a right to see. */
interface ModelReader {
  readonly filter: readonly string[] | undefined;
  readonly start: Offset;
  readonly seen: string[];
  lastId: Offset;
  wire: Wire | undefined;
  /** It was told that it has lost events. */
  isExpired: boolean;
}

describe('whatever happens to a log and its readers', () => {
  test('each reader sees every event it wants once and in order, or is told otherwise', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 60 }), async (steps) => {
        const play = await openPlay();
        try {
          for (const each of steps) await play.take(each);
          await play.finish();
        } finally {
          await play.scene.close();
        }
      }),
      { numRuns: 200, seed: 20_261_121 },
    );
  });
});

interface Play {
  readonly scene: PullScene;
  take(step: Step): Promise<void>;
  /** Lets every reader read to the end, and compares. */
  finish(): Promise<void>;
}

async function openPlay(): Promise<Play> {
  const hearing = createHearing();
  const answers = createAnswers();
  const scene = await openScene({
    clock: createManualClock(),
    settings: { tailEventsMax: 10, pageEvents: 3, waitingBytesMax: 500 },
    around: (store) => answers.around(hearing.around(store)),
  });
  const log: string[] = [];
  const clients = new Map<number, ModelReader>();
  const wanted = ({ filter, start }: ModelReader, upTo: Offset): string[] =>
    shown(
      ...range(start + 1, upTo).filter((offset) => filter?.includes(log[offset - 1] ?? '') ?? true),
    );

  /** What came over the connection that is closed now. */
  const collect = async (client: ModelReader): Promise<void> => {
    const { wire } = client;
    if (wire === undefined) return;
    wire.events?.gone();
    client.wire = undefined;
    client.seen.push(...wire.offsets);
    const ids = [...wire.text.matchAll(/^id: (?<id>.*)$/gm)].map((match) => match.groups?.['id']);
    client.lastId = parseOffset(ids.at(-1) ?? '')?.offset ?? client.lastId;
    if (!wire.text.includes('event: error')) return;
    assert.match(wire.text, /"code":"cursor_expired"/);
    await expire(client);
  };
  const expire = async (client: ModelReader): Promise<void> => {
    client.isExpired = true;
    const oldest = await scene.store.log.firstSince(scene.tenant, 0);
    assert.ok(oldest > client.lastId + 1, 'something after its last id is gone');
  };
  const connect = async (client: ModelReader, takes: boolean): Promise<void> => {
    const wire = new Wire(takes, 300);
    const { filter, lastId } = client;
    client.wire = wire;
    await scene
      .open({ after: lastId, wire, ...(filter === undefined ? {} : { types: filter }) })
      .catch(async (error: unknown) => {
        assert.equal((error as Error).message, 'expired');
        client.wire = undefined;
        await expire(client);
      });
  };

  return {
    scene,
    take: async (step) => {
      if (step.kind === 'append') {
        hearing.as = step.heard;
        const names = step.of.map((type) => types[type] ?? 'a.made');
        await scene.append(...names);
        log.push(...names);
        hearing.as = 'own';
      } else if (step.kind === 'prune') {
        // Only age lets events be pruned.
        await scene.store.log.prune(scene.tenant, { olderThanMs: -1, take: step.take });
      } else if (step.kind === 'wait') {
        await scene.clock.advance(step.ms);
      } else if (step.kind === 'hear') {
        hearing.hear();
      } else if (step.kind === 'hold' || step.kind === 'answer') {
        answers.hold(step.kind === 'hold');
        await scene.clock.advance(0);
      } else {
        await move(step);
      }
    },
    finish: async () => {
      hearing.hear();
      answers.hold(false);
      await scene.clock.advance(0);
      for (const client of clients.values()) {
        await collect(client);
        if (client.isExpired) {
          assert.deepEqual(client.seen, wanted(client, client.lastId));
          continue;
        }
        await connect(client, true);
      }
      await scene.clock.advance(6_000);
      for (const client of clients.values()) {
        if (client.isExpired) continue;
        await collect(client);
        const upTo = client.isExpired ? client.lastId : log.length;
        assert.deepEqual(client.seen, wanted(client, upTo));
      }
      assert.equal(scene.pulls.open, 0);
      const messages = new Set(scene.logged.map(({ message }) => message));
      messages.delete('a pull was closed because its client did not read');
      assert.deepEqual([...messages], []);
    },
  };

  async function move(step: Extract<Step, { reader: number }>): Promise<void> {
    const client = clients.get(step.reader);
    if (step.kind === 'open' && client === undefined) {
      const oldest = await scene.store.log.firstSince(scene.tenant, 0);
      const start = Math.max(oldest - 1, log.length - step.back);
      const made: ModelReader = {
        filter: filters[step.filter],
        start,
        seen: [],
        lastId: start,
        wire: undefined,
        isExpired: false,
      };
      clients.set(step.reader, made);
      await connect(made, step.takes);
    } else if (client !== undefined && !client.isExpired) {
      if (step.kind === 'take') client.wire?.take(step.takes);
      else await collect(client);
      if (step.kind === 'open' && !client.isExpired) await connect(client, step.takes);
    }
  }
}

interface Hearing {
  as: Heard;
  /** The hints that were late come. */
  hear(): void;
  around(store: Store): Store;
}

function createHearing(): Hearing {
  const late: Hint[] = [];
  const listeners = new Set<(hint: Hint) => void>();
  const tell = (hint: Hint): void => {
    for (const listener of listeners) listener(hint);
  };
  const hearing: Hearing = {
    as: 'own',
    hear: () => {
      for (const hint of late.splice(0).toReversed()) {
        tell(hint);
        tell(hint);
      }
    },
    around: (store) => ({
      ...store,
      watch: (listener) => {
        listeners.add(listener);
        return store.watch((hint) => {
          if (hint.kind !== 'appended' || hearing.as === 'own') return listener(hint);
          if (hearing.as === 'no') return;
          const head = hint.events.at(-1)?.offset ?? 0;
          const heard: Hint = { kind: 'head', tenant: hint.tenant, head };
          if (hearing.as === 'head') listener(heard);
          else late.push(hearing.as === 'late' ? hint : heard);
        });
      },
    }),
  };
  return hearing;
}

interface Answers {
  /** Whether pages that are read from now on come late; what is late comes at `false`. */
  hold(isHeld: boolean): void;
  around(store: Store): Store;
}

function createAnswers(): Answers {
  let isHeld = false;
  const held: (() => void)[] = [];
  const late = async <T>(read: Promise<T>): Promise<T> => {
    const answer = await read;
    if (isHeld) await new Promise<void>((resolve) => held.push(resolve));
    return answer;
  };
  return {
    hold: (next) => {
      isHeld = next;
      if (!next) for (const answer of held.splice(0)) answer();
    },
    around: (store) => ({
      ...store,
      log: { ...store.log, page: (tenant, query) => late(store.log.page(tenant, query)) },
    }),
  };
}
