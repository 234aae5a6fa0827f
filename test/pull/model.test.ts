import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parseOffset } from '../../src/core/offset.ts';
import type { Offset } from '../../src/core/types.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createManualClock } from '../helpers/clock.ts';
import { createPullFixture, type PullFixture, range, shown, Wire } from './fixture.ts';

const types = ['a.made', 'b.made', 'c.made'] as const;

/** Which hints this process receives of an append: the events, the head, either one late, or none. */
type HintMode = 'own' | 'head' | 'late' | 'late head' | 'no';

/** One step, in any order. */
type Step =
  | {
      readonly kind: 'append';
      readonly of: readonly number[];
      readonly hints: HintMode;
    }
  /** Late hints arrive, the last one first, each twice. */
  | { readonly kind: 'hints' }
  /** Pages that are read from now on are held, until all are released at once. */
  | { readonly kind: 'hold' }
  | { readonly kind: 'release' }
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
      hints: fc.constantFrom<HintMode>('own', 'own', 'own', 'head', 'late', 'late head', 'no'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Step>({ kind: 'hints' }, { kind: 'hold' }, { kind: 'release' }),
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

/** A client that reconnects with its last id, and what it has received. */
interface ModelReader {
  readonly filter: readonly string[] | undefined;
  readonly start: Offset;
  readonly seen: string[];
  lastId: Offset;
  wire: Wire | undefined;
  /** It received `cursor_expired`. */
  isExpired: boolean;
}

describe('pulls with random steps of log, hints and readers', () => {
  test(
    'each reader receives every matching event once and in order, or an error',
    { tags: ['long'] },
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 60 }), async (steps) => {
          const model = await openModel();
          try {
            for (const each of steps) await model.take(each);
            await model.finish();
          } finally {
            await model.fixture.close();
          }
        }),
        { numRuns: 200, seed: 20_261_121 },
      );
    },
  );
});

interface Model {
  readonly fixture: PullFixture;
  take(step: Step): Promise<void>;
  /** Lets every reader read to the end, and compares the events. */
  finish(): Promise<void>;
}

async function openModel(): Promise<Model> {
  const hints = createHints();
  const pages = createPages();
  const fixture = await createPullFixture({
    clock: createManualClock(),
    settings: { tailEventsMax: 10, pageEvents: 3, waitingBytesMax: 500 },
    around: (store) => pages.around(hints.around(store)),
  });
  const log: string[] = [];
  const clients = new Map<number, ModelReader>();
  const wanted = ({ filter, start }: ModelReader, upTo: Offset): string[] =>
    shown(
      ...range(start + 1, upTo).filter((offset) => filter?.includes(log[offset - 1] ?? '') ?? true),
    );

  /** Closes the connection and reads what came over it. */
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
    const oldest = await fixture.store.log.firstSince(fixture.tenant, 0);
    assert.ok(oldest > client.lastId + 1, 'an event after its last id was pruned');
  };
  const connect = async (client: ModelReader, takes: boolean): Promise<void> => {
    const wire = new Wire(takes, 300);
    const { filter, lastId } = client;
    client.wire = wire;
    await fixture
      .open({ after: lastId, wire, ...(filter === undefined ? {} : { types: filter }) })
      .catch(async (error: unknown) => {
        assert.equal((error as Error).message, 'expired');
        client.wire = undefined;
        await expire(client);
      });
  };

  return {
    fixture,
    take: async (step) => {
      if (step.kind === 'append') {
        hints.mode = step.hints;
        const names = step.of.map((type) => types[type] ?? 'a.made');
        await fixture.append(...names);
        log.push(...names);
        hints.mode = 'own';
      } else if (step.kind === 'prune') {
        // A negative age: every event may be pruned.
        await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: step.take });
      } else if (step.kind === 'wait') {
        await fixture.clock.advance(step.ms);
      } else if (step.kind === 'hints') {
        hints.sendLate();
      } else if (step.kind === 'hold' || step.kind === 'release') {
        pages.hold(step.kind === 'hold');
        await fixture.clock.advance(0);
      } else {
        await move(step);
      }
    },
    finish: async () => {
      hints.sendLate();
      pages.hold(false);
      await fixture.clock.advance(0);
      for (const client of clients.values()) {
        await collect(client);
        if (client.isExpired) {
          assert.deepEqual(client.seen, wanted(client, client.lastId));
          continue;
        }
        await connect(client, true);
      }
      await fixture.clock.advance(6_000);
      for (const client of clients.values()) {
        if (client.isExpired) continue;
        await collect(client);
        const upTo = client.isExpired ? client.lastId : log.length;
        assert.deepEqual(client.seen, wanted(client, upTo));
      }
      assert.equal(fixture.pulls.open, 0);
      const messages = new Set(fixture.logged.map(({ message }) => message));
      messages.delete('a pull was closed because its client did not read');
      assert.deepEqual([...messages], []);
    },
  };

  async function move(step: Extract<Step, { reader: number }>): Promise<void> {
    const client = clients.get(step.reader);
    if (step.kind === 'open' && client === undefined) {
      const oldest = await fixture.store.log.firstSince(fixture.tenant, 0);
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

interface Hints {
  mode: HintMode;
  /** Sends late hints. */
  sendLate(): void;
  around(store: Store): Store;
}

function createHints(): Hints {
  const late: Hint[] = [];
  const listeners = new Set<(hint: Hint) => void>();
  const send = (hint: Hint): void => {
    for (const listener of listeners) listener(hint);
  };
  const hints: Hints = {
    mode: 'own',
    sendLate: () => {
      for (const hint of late.splice(0).toReversed()) {
        send(hint);
        send(hint);
      }
    },
    around: (store) => ({
      ...store,
      watch: (listener) => {
        listeners.add(listener);
        return store.watch((hint) => {
          if (hint.kind !== 'appended' || hints.mode === 'own') return listener(hint);
          if (hints.mode === 'no') return;
          const head = hint.events.at(-1)?.offset ?? 0;
          const reached: Hint = { kind: 'head', tenant: hint.tenant, head };
          if (hints.mode === 'head') listener(reached);
          else late.push(hints.mode === 'late' ? hint : reached);
        });
      },
    }),
  };
  return hints;
}

interface Pages {
  /** Holds pages that are read from now on; `false` releases all. */
  hold(isHeld: boolean): void;
  around(store: Store): Store;
}

function createPages(): Pages {
  let isHeld = false;
  const held: (() => void)[] = [];
  const late = async <T>(read: Promise<T>): Promise<T> => {
    const page = await read;
    if (isHeld) await new Promise<void>((resolve) => held.push(resolve));
    return page;
  };
  return {
    hold: (next) => {
      isHeld = next;
      if (!next) for (const release of held.splice(0)) release();
    },
    around: (store) => ({
      ...store,
      log: { ...store.log, page: (tenant, query) => late(store.log.page(tenant, query)) },
    }),
  };
}
