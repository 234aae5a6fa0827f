import assert from 'node:assert/strict';
import {
  failingMs,
  laggingMs,
  type StreamState,
  streamStates,
} from '../../../src/core/stream-state.ts';
import type { StreamStanding } from '../../../src/store/port/streams.ts';
import type { ModelRun } from './model-run.ts';
import { healthOf, type Model, type ModelStream } from './model.ts';

/** Lags that are shorter are left out where the state does not depend on them. */
const sortedMs = 90_000;

/** Compares states, lags and facts with a plain evaluation, now and when what waits has become old. */
export async function compareStandings(modelRun: ModelRun): Promise<void> {
  const present = modelRun.now;
  for (const laterMs of [0, failingMs, sortedMs, laggingMs]) {
    modelRun.now = present + laterMs;
    await compareNow(modelRun);
  }
  modelRun.now = present;
}

async function compareNow({ store, tenant, now, model }: ModelRun): Promise<void> {
  const states = new Map<StreamState, number>();
  const ids = [...model.streams.keys()];
  const facts = await store.streams.factsOf(tenant, ids);
  const waiting = new Map(
    [...model.streams].map(([id, stream]) => [id, waitingOf(model, stream)] as const),
  );
  for (const [id, expected] of waiting) {
    assert.deepEqual(facts.get(id)?.waiting, { ...expected, atLeast: false });
    assert.deepEqual(facts.get(id), await store.streams.facts(tenant, id));
  }
  for (const [id, stream] of model.streams) {
    const { oldestAt = now } = waiting.get(id) ?? {};
    const state = stateOf(stream, now - oldestAt, now);
    states.set(state, (states.get(state) ?? 0) + 1);
  }
  const overview = await store.overview.tenant(tenant);
  assert.equal(overview?.streams.failing, states.get('failing') ?? 0);
  assert.equal(overview.streams.disabled, states.get('disabled') ?? 0);
  for (const lagsOf of ['lagging', 'active', 'all'] as const) {
    const leastMs = lagsOf === 'lagging' ? laggingMs : sortedMs;
    const expected = [...model.streams].map(([id, stream]): Partial<StreamStanding> => {
      const isActive = stream.enabled && !stream.paused;
      const { oldestAt } = waiting.get(id) ?? {};
      const lagMs = oldestAt === undefined ? 0 : now - oldestAt;
      const isListed = lagMs >= leastMs && (isActive || lagsOf === 'all');
      return {
        id,
        state: stateOf(stream, lagMs, now),
        openFailures: healthOf(stream).total,
        lastFailedAt: facts.get(id)?.lastFailedAt,
        waitingSince: isListed ? oldestAt : undefined,
      };
    });
    const read = await store.streams.states(tenant, { lagsOf });
    const found = read.streams.map(({ name: _, version: __, ...rest }) => rest);
    assert.deepEqual(found, expected.toSorted(byId), lagsOf);
    for (const { id, name, version } of read.streams) {
      const stored = await store.streams.get(tenant, id);
      assert.deepEqual([name, version], [stored?.name, stored?.version]);
    }
  }
}

function byId(
  { id: one = '' }: Partial<StreamStanding>,
  { id: other = '' }: Partial<StreamStanding>,
) {
  return one < other ? -1 : 1;
}

function stateOf(stream: ModelStream, lagMs: number, now: number): StreamState {
  const dueAt = Math.min(...[...stream.rows.values()].map(({ dueAt: at = Infinity }) => at));
  const since = Math.min(stream.failingSince ?? Infinity, Math.max(dueAt, stream.deliveredAt));
  const holds: Readonly<Record<StreamState, boolean>> = {
    disabled: !stream.enabled,
    paused: stream.paused,
    failing: stream.consecutive > 0 || now - since >= failingMs,
    lagging: lagMs >= laggingMs,
    ok: true,
  };
  return streamStates.find((state) => holds[state]) ?? 'ok';
}

function waitingOf({ log }: Model, { type, cursor, rows }: ModelStream) {
  const withRow = new Set([...rows.values()].map(({ offset }) => offset));
  const events = log.filter(
    (event) => event.type === type && event.offset > cursor && !withRow.has(event.offset),
  );
  return { count: events.length, oldestAt: events[0]?.publishedAt };
}
