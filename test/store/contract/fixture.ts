import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type {
  Appended,
  DeliveredEvent,
  Health,
  HealthLimits,
  NewEvent,
  Offset,
  Stream,
  Tenant,
  Node,
} from '../../../src/core/types.ts';
import type { DueRules } from '../../../src/store/port/deliveries.ts';
import type { Hint } from '../../../src/store/port/hints.ts';
import type { CursorRaise, OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Outcome, SettledStream, Settlement } from '../../../src/store/port/settlement.ts';
import type { Store } from '../../../src/store/port/store.ts';
import type { WaitRule } from '../../../src/store/port/time.ts';
import type { Engine, TestTime } from './engine.ts';

/** 2026-03-01T09:30:00.000Z */
export const start = 1_772_357_400_000;

/** High enough that nothing is disabled by accident. */
export const noLimits: HealthLimits = { consecutive: 1_000_000, total: 1_000_000 };

/** Longer than any row of these tests waits. */
export const waitRule: WaitRule = { longestWaitMs: 86_400_000 };
export const dueRules: DueRules = { ...waitRule, leaseMs: 15_000 };

/** Longer than any test takes. */
export const leaseMs = 3_600_000;

let claims = 0;

/** Returns a number for a claim, above all earlier ones. */
export function nextClaim(): number {
  claims += 1;
  return claims;
}

/** A store with one tenant, and helpers for the tests. */
export interface Fixture {
  readonly store: Store;
  readonly tenant: number;
  /** The time of the store. */
  now: number;
  limits: HealthLimits;
  readonly hints: Hint[];
  /** Appends one event of each type; returns them as a delivery has them. */
  publish(...types: string[]): Promise<LoggedEvent[]>;
  addStream(options?: Partial<Stream> & { types?: string[]; filter?: string }): Promise<Stream>;
  /** Makes this fixture's node the owner of every free stream, and returns the requested one. */
  own(stream: Stream): Promise<OwnedStream>;
  /** Ends the lease of this fixture's node, so that no call waits for it to see a change. */
  retire(): Promise<void>;
  /** Settles outcomes of one owned stream, in a batch of their own. */
  settle(owned: OwnedStream, settlement: SettleOptions): Promise<SettledStream>;
  settleMany(settlements: readonly Settlement[], batch?: number): Promise<readonly SettledStream[]>;
  health(stream: Stream): Promise<Health>;
  node(): Promise<Node>;
}

export type SettleOptions = Partial<Settlement> & { outcomes?: readonly Outcome[] };

export type LoggedEvent = DeliveredEvent & { readonly offset: Offset };

export async function createFixture(engine: Engine, t: TestContext): Promise<Fixture> {
  const opened = await engine.open();
  t.after(() => opened.close());
  const tenant = await addTenant(opened.store, 'main');
  return fixtureOf(opened.store, tenant.id, opened.time);
}

export async function addTenant(store: Store, name: string): Promise<Tenant> {
  const result = await store.tenants.create({ name, domain: `${name}.example.com` }, start);
  assert.ok('created' in result);
  return result.created;
}

/** Returns the same for a store that has the tenant already. */
export function fixtureOf(store: Store, tenant: number, time: TestTime = { at: start }): Fixture {
  const hints: Hint[] = [];
  store.watch((hint) => hints.push(hint));
  let joined: Promise<Node> | undefined;
  let batches = 0;
  const fixture: Fixture = {
    store,
    tenant,
    get now() {
      return time.at;
    },
    set now(to) {
      time.at = to;
    },
    limits: noLimits,
    hints,
    publish: async (...types) => {
      const events = types.map((type) => newEvent({ type, time: fixture.now }));
      const appended = await store.log.append(tenant, events);
      return events.map((event, index) => logged(event, appended[index]));
    },
    addStream: async (options = {}) => {
      const result = await store.streams.create(newStream(tenant, fixture.now, options), {
        streamsMax: 1000,
      });
      assert.ok('created' in result);
      return result.created;
    },
    own: async (stream) => {
      await store.ownership.heartbeat(await fixture.node(), leaseMs);
      const claimed = await store.ownership.claim(await fixture.node(), {
        claim: nextClaim(),
        take: 1000,
        ...waitRule,
      });
      const owned = claimed.find((item) => item.stream.id === stream.id);
      assert.ok(owned, 'the stream was free and had something to do');
      return owned;
    },
    retire: async () => {
      await store.ownership.heartbeat(await fixture.node(), 0);
    },
    settle: async (owned, options) => {
      const [settled] = await fixture.settleMany([settlementOf(owned, options)]);
      assert.ok(settled);
      return settled;
    },
    settleMany: async (settlements, batch) => {
      batches = batch ?? batches + 1;
      const node = await fixture.node();
      const { limits } = fixture;
      return store.deliveries.settle(node, batches, settlements, limits);
    },
    health: async (stream) => {
      const health = await store.streams.health(tenant, stream.id);
      assert.ok(health);
      return health;
    },
    node: () => (joined ??= store.ownership.join('node-a', leaseMs)),
  };
  return fixture;
}

function logged(event: NewEvent, appended: Appended | undefined): LoggedEvent {
  assert.ok(appended);
  const { id, type, time, body } = event;
  return { id, type, time, body, offset: appended.offset };
}

/** Returns a settlement of an owned stream; by default its cursor does not move. */
export function settlementOf(owned: OwnedStream, options: SettleOptions = {}): Settlement {
  const { stream, epoch, run, cursor } = owned;
  const { tenant, id, version } = stream;
  return { tenant, stream: id, epoch, run, version, cursor, outcomes: [], ...options };
}

/** Returns the argument with which an owner releases a stream, or writes its cursor. */
export function raiseOf({ stream, epoch, run, cursor }: OwnedStream): CursorRaise {
  const { tenant, id, version } = stream;
  return { tenant, stream: id, epoch, run, version, cursor };
}

let made = 0;

/** Returns a new id for every call, rising like those that Leat generates. */
export function newId(prefix: 'evt' | 'est' | 'rpl'): string {
  made += 1;
  return `${prefix}_${String(made).padStart(22, '0')}`;
}

export function newEvent(options: Partial<NewEvent> = {}): NewEvent {
  const id = options.id ?? newId('evt');
  const type = options.type ?? 'user.created';
  const body = JSON.stringify({ id, type, data: {} });
  return { id, chosen: false, type, time: start, body, ...options };
}

export function newStream(
  tenant: number,
  now: number,
  options: Partial<Stream> & { types?: readonly string[]; filter?: string } = {},
): Parameters<Store['streams']['create']>[0] {
  const id = options.id ?? newId('est');
  return {
    tenant,
    id,
    name: id,
    status: 'enabled',
    types: ['user.created'],
    destination: {
      type: 'webhook',
      endpoint: 'https://hooks.example.net/leat',
      authorization: { method: 'bearer', token: 'kept-secret' },
    },
    signingSecrets: [{ secret: 'whsec_AAEC', createdAt: now, expiresAt: undefined }],
    createdAt: now,
    updatedAt: now,
    ...options,
  };
}

// Outcomes

type OutcomeOptions = Partial<Pick<Outcome, 'kind' | 'attempt' | 'hasRow' | 'orderKey'>> & {
  /** Time since the attempt began. */
  agoMs?: number;
  error?: string;
  delayMs?: number;
  cycleMaxMs?: number;
  leaseMs?: number;
  goneVersion?: number;
  status?: number | undefined;
};

const attempted = { agoMs: 0, durationMs: 35.25, status: 503 };
const firstAttempt = { kind: 'first', attempt: 1, hasRow: false } as const;

export function delivered(
  event: DeliveredEvent,
  options: Omit<OutcomeOptions, 'status'> = {},
): Outcome {
  return { ...firstAttempt, ...attempted, status: 200, ...options, event, result: 'delivered' };
}

export function failed(event: DeliveredEvent, options: OutcomeOptions = {}): Outcome {
  const error = '503 - busy';
  return { ...firstAttempt, ...attempted, error, ...options, event, result: 'failed' };
}

export function retry(event: DeliveredEvent, options: OutcomeOptions = {}): Outcome {
  const error = '503 - busy';
  const delayMs = 1000;
  return { ...firstAttempt, ...attempted, error, delayMs, ...options, event, result: 'retry' };
}

export function parked(event: DeliveredEvent, options: OutcomeOptions = {}): Outcome {
  return { ...firstAttempt, leaseMs: 15_000, ...options, event, result: 'parked' };
}

/** The event waits behind its key. */
export function blocked(event: DeliveredEvent, { orderKey }: OutcomeOptions): Outcome {
  return { ...firstAttempt, event, orderKey, result: 'blocked' };
}

/** Returns the deliveries that are due now. */
export async function claimDue(fixture: Fixture, owned: OwnedStream, take = 100) {
  const { stream, epoch } = owned;
  const request = { tenant: stream.tenant, stream: stream.id, epoch, take, ...dueRules };
  const [result] = await fixture.store.deliveries.claimDue([request]);
  assert.ok(result);
  return result;
}

export async function failuresOf(fixture: Fixture, stream: Stream) {
  const query = { after: undefined, take: 1000 };
  const page = await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query);
  return page.items;
}
