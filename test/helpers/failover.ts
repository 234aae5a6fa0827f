import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scope } from './cluster.ts';
import { createTempStore, type Running, startLeat, waitFor } from './leat.ts';
import { type PostgresServer, query, startPostgres } from './postgres.ts';
import { openPull, type OpenPull } from './pull.ts';
import { bytesBehind, type Standby, startStandby } from './standby.ts';
import {
  type CountingReceiver,
  createStream,
  eventType,
  startCountingReceiver,
} from './traffic.ts';

/** The least number of events that only the primary has when it dies, with asynchronous replication. */
const missingMin = 300;
/** The least number of events that each node publishes before, during and after the outage. */
const stepEvents = 60;
const streams = ['one', 'two'];
const publishersPerNode = 3;
const retryMs = 20;

/**
 * Nodes as processes on a primary with a standby. A round kills the primary under load and promotes
 * the standby, which gets a new standby in the next round; the nodes run through all rounds.
 */
export interface FailoverFixture {
  play(replication: 'asynchronous' | 'synchronous'): Promise<FailoverRound>;
  /** Ends the traffic, and checks the events of the store, the receiver and the pull. */
  end(): Promise<{ events: number; pulled: number; restarts: number }>;
}

export interface FailoverRound {
  /** From the promotion until every node has acknowledged an event. */
  readonly outageMs: number;
  /** The same from the death of the primary. */
  readonly sinceKillMs: number;
  /** Events acknowledged before the death that the survivor does not have. */
  readonly lost: number;
  /** Events of the survivor; the round ends when each has arrived at every stream. */
  readonly survived: number;
}

interface Publisher {
  /** When each of its events was acknowledged, oldest first. */
  readonly acknowledged: { readonly id: string; readonly atMs: number }[];
  readonly ended: Promise<void>;
}

/** Starts a fixture that ends with the test. */
export async function startFailoverFixture(t: TestContext): Promise<FailoverFixture> {
  const ending = new AbortController();
  t.after(() => ending.abort());
  const receiver = await startCountingReceiver(t);
  receiver.startRound();
  const servers = await startServers(t);
  const tempStore = await createTempStore();
  const nodes: Running[] = [];
  t.after(async () => {
    await Promise.all(nodes.map((node) => node.kill()));
    await tempStore.remove();
  });
  while (nodes.length < 2) {
    nodes.push(
      await startLeat(tempStore, { LEAT_STORE: servers.url, LEAT_TENANT_DOMAIN: 'localhost:4444' }),
    );
  }
  const [first] = nodes;
  assert.ok(first);
  for (const name of streams) await createStream(first, receiver.url, name);
  const publishers = nodes.map((node) =>
    Array.from({ length: publishersPerNode }, () => publishOn(node, ending.signal)),
  );
  const acknowledged = (untilMs = Infinity): string[] =>
    publishers
      .flat()
      .flatMap((publisher) =>
        publisher.acknowledged.flatMap(({ id, atMs }) => (atMs < untilMs ? id : [])),
      );
  const more = async (count: number): Promise<void> => {
    const wanted = publishers.map((ofNode) => countOf(ofNode) + count);
    const isDone = () =>
      publishers.every((ofNode, index) => countOf(ofNode) >= (wanted[index] ?? 0));
    await waitFor(`${count} more events at each node`, isDone, {
      progress: () => acknowledged().length,
    });
  };
  const pull = followPull(nodes);
  t.after(pull.close);
  /** Events acknowledged by primaries of earlier rounds that died with them. */
  const lostBefore = new Set<string>();

  const play: FailoverFixture['play'] = async (replication) => {
    const synchronous = replication === 'synchronous';
    const standby = await servers.addStandby(synchronous);
    await more(stepEvents);
    if (!synchronous) {
      standby.proxy.blackhole();
      await more(missingMin / nodes.length);
    }
    const killedMs = performance.now();
    await servers.failOver();
    const promotedMs = performance.now();
    await more(1);
    const backMs = Math.max(...publishers.map((ofNode) => firstAfter(ofNode, promotedMs)));
    await more(stepEvents);
    const survived = await deliveredIds(servers, receiver);
    const lost = acknowledged(promotedMs).filter((id) => !survived.has(id) && !lostBefore.has(id));
    for (const id of lost) lostBefore.add(id);
    return {
      outageMs: Math.max(0, backMs - promotedMs),
      sinceKillMs: backMs - killedMs,
      lost: lost.length,
      survived: survived.size,
    };
  };
  return {
    play,
    end: async () => {
      ending.abort();
      await Promise.all(publishers.flat().map(({ ended }) => ended));
      const ids = await deliveredIds(servers, receiver);
      await waitForRecords(servers);
      await pull.waitForAll(ids);
      return { events: ids.size, pulled: pull.seen.size, restarts: pull.restarts };
    },
  };
}

/** A primary and its standby, which swap roles; both are in the URL from the start. */
export interface Servers {
  readonly url: string;
  addStandby(synchronous: boolean): Promise<Standby>;
  /** Kills the primary and promotes the standby; resolves when that takes writes. */
  failOver(): Promise<void>;
  /** Events of the log, oldest first. */
  ids(): Promise<string[]>;
  ask<Row extends object>(sql: string): Promise<Row[]>;
}

export async function startServers(t: Scope): Promise<Servers> {
  let primary: PostgresServer = await startPostgres();
  let standby: Standby | undefined = await startStandby(primary);
  t.after(async () => {
    await standby?.close();
    await primary.close();
  });
  const database = new URL(await primary.createDatabase()).pathname;
  const hosts = [primary, standby.server].map(({ port }) => `127.0.0.1:${port}`).join(',');
  const ask: Servers['ask'] = (sql) => query(primary.url(database.slice(1)), sql);
  /** Of the server that died last: the next standby replaces it. */
  let freePort: number | undefined;
  return {
    url: `postgres://leat:leat@${hosts}${database}?target_session_attrs=read-write`,
    addStandby: async (synchronous) => {
      if (standby === undefined || synchronous) {
        const port = standby?.server.port ?? freePort;
        await standby?.close();
        standby = await startStandby(primary, { synchronous, ...(port !== undefined && { port }) });
      }
      const added = standby;
      const progress = () => bytesBehind(primary, added);
      await waitFor('the standby to follow', async () => (await progress()) < 1_000_000);
      return added;
    },
    failOver: async () => {
      assert.ok(standby !== undefined);
      const [former, next] = [primary, standby];
      await former.kill();
      await next.promote();
      [primary, standby, freePort] = [next.server, undefined, former.port];
      await former.close();
    },
    ids: async () => {
      const rows = await ask<{ id: string }>('select id from events order by "offset"');
      return rows.map(({ id }) => id);
    },
    ask,
  };
}

const countOf = (publishers: readonly Publisher[]): number =>
  publishers.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0);

/** Returns when a node acknowledged its first event after an instant. */
function firstAfter(publishers: readonly Publisher[], sinceMs: number): number {
  const first = publishers.flatMap(
    ({ acknowledged }) => acknowledged.find(({ atMs }) => atMs >= sinceMs)?.atMs ?? [],
  );
  return Math.min(...first);
}

let published = 0;

/** Publishes one event after the other; repeats an event until it is acknowledged. */
function publishOn(node: Running, until: AbortSignal): Publisher {
  const acknowledged: Publisher['acknowledged'] = [];
  const work = async (): Promise<void> => {
    while (!until.aborted) {
      published += 1;
      const event = { id: `order-${published}`, type: eventType, data: { object: {} } };
      const id = await untilAccepted(node, event, until);
      if (id !== undefined) acknowledged.push({ id, atMs: performance.now() });
      await sleep(retryMs);
    }
  };
  return { acknowledged, ended: work() };
}

async function untilAccepted(
  node: Running,
  event: object,
  until: AbortSignal,
): Promise<string | undefined> {
  while (!until.aborted) {
    try {
      const response = await node.send('POST', '/api/v2/events', event);
      const body = (await response.json()) as { id?: string };
      if (response.status === 202) return body.id;
      assert.equal(response.status, 503, JSON.stringify(body));
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    await sleep(retryMs);
  }
  return undefined;
}

/** Returns the events of the survivor once each has arrived at every stream. */
async function deliveredIds(servers: Servers, receiver: CountingReceiver): Promise<Set<string>> {
  const ids = await servers.ids();
  await receiver.waitForAll('every event of the survivor', streams, ids);
  return new Set(ids);
}

/** Waits until every delivery is recorded and the cursors are at the head; checks that the log has no gap. */
async function waitForRecords(servers: Servers): Promise<void> {
  interface LogState {
    readonly head: number;
    readonly events: number;
    readonly cursors: readonly number[];
    readonly rows: number;
    readonly ordered: boolean;
  }
  const read = async (): Promise<LogState | undefined> => {
    const [state] = await servers.ask<LogState>(`
      select t.head::int as head, (select count(*)::int from events) as events,
        (select json_agg(r.cursor order by r.stream) from runs r) as cursors,
        (select count(*)::int from deliveries) as rows, (
          select count(*) = 0 from (
            select published_at < lag(published_at) over (order by "offset") as falls from events
          ) as pair where falls) as ordered
      from tenants t`);
    return state;
  };
  let last: LogState | undefined;
  await waitFor(
    'every delivery to be recorded',
    async () => {
      last = await read();
      return last?.rows === 0 && last.cursors.every((cursor) => cursor === last?.head);
    },
    { progress: () => last },
  );
  assert.equal(last?.events, last?.head, 'offsets have no gap');
  assert.equal(last?.ordered, true, 'the instant of acceptance never falls along the log');
}

/** Reads the log as a client does: after its last event, or from the beginning after a 410. */
function followPull(nodes: readonly Running[]) {
  const seen = new Set<string>();
  const state = { restarts: 0, isClosed: false };
  let lastId: string | undefined;

  const note = (blocks: OpenPull['blocks']): void => {
    for (const { id, data } of blocks) {
      lastId = id ?? lastId;
      const { event } = (data ?? {}) as { event?: { id: string } };
      if (event !== undefined) seen.add(event.id);
    }
  };
  const read = async (node: Running): Promise<void> => {
    const resumed: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId };
    const beginning = lastId === undefined ? '?from_timestamp=2020-01-01T00:00:00Z' : '';
    const pull = await openPull(`${node.url}/api/v2/events${beginning}`, node.token, resumed);
    if (pull.status === 410) {
      state.restarts += 1;
      lastId = undefined;
    }
    let isOver = pull.status !== 200;
    void pull.ended.then(() => (isOver = true));
    let noted = 0;
    while (!state.isClosed) {
      note(pull.blocks.slice(noted));
      noted = pull.blocks.length;
      if (isOver) break;
      await sleep(retryMs);
    }
    pull.close();
  };
  const follow = async (): Promise<void> => {
    for (let turn = 0; !state.isClosed; turn += 1) {
      const node = nodes[turn % nodes.length];
      // A node that does not respond is tried again in its turn.
      if (node !== undefined) await read(node).catch(() => undefined);
      await sleep(retryMs);
    }
  };
  const followed = follow();
  return {
    seen,
    get restarts() {
      return state.restarts;
    },
    waitForAll: async (ids: Iterable<string>): Promise<void> => {
      const missing = () =>
        Iterator.from(ids)
          .filter((id) => !seen.has(id))
          .toArray().length;
      await waitFor('the pull to have every event', () => missing() === 0, { progress: missing });
    },
    close: (): Promise<void> => {
      state.isClosed = true;
      return followed;
    },
  };
}
