import type pg from 'pg';
import { backoffMs } from '../../../core/backoff.ts';
import type { Clock, Timer } from '../../../core/clock.ts';
import { sleep } from '../../../core/sleep.ts';
import type { Hint } from '../../port/hints.ts';
import type { Database } from './database.ts';
import type { Hosts } from './hosts.ts';
import { hintOf, type Message, messageOf, messagesOf, payloadOf, topicOf } from './notification.ts';

/** Sends hints between the processes on one database, by NOTIFY and LISTEN. */
export interface ListenNotify {
  /** Publishes a hint to the other processes, batched with others after a short delay. */
  publish(hint: Hint): void;
  /**
   * Sets the number of live nodes. While this node is alone it publishes no appended events: a node
   * that joins reads the log first, and receives the next ones.
   */
  counted(living: number): void;
  close(): Promise<void>;
}

export interface ListenNotifyDeps {
  readonly db: Pick<Database, 'get'>;
  readonly hosts: Hosts;
  /** Identifies the sender; a process ignores its own messages. */
  readonly self: string;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** The generation of the store; a head is only valid on the store where it was read. */
  readonly generation: () => number | undefined;
  /** Receives the hints of other processes. */
  readonly onMessage: (hint: Hint) => void;
  /** Receives, once per outage, why no messages arrive. */
  readonly report: (error: unknown) => void;
}

const channel = 'leat';
/**
 * NOTIFY serialises commits of the whole server for a moment, so it is never part of a command, and
 * its rate is limited. Alone it writes nothing, and its commit does not wait for the disk.
 */
const pauseMs = { least: 1, most: 5 };
/**
 * The pause is so many times as long as the notification took: on a busy server fewer ones leave, and
 * what they tell arrives earlier than behind many.
 */
const pauseFactor = 2;
const firstWaitMs = 100;
/** Wait before a notification is sent again. */
const unsent = { firstMs: 100, maxMs: 1000 };
/**
 * Pause between two checks of the connection, time for its response, and longest pause after a
 * loss.
 */
const oneServer = { checkMs: 10_000, responseMs: 10_000, longestWaitMs: 30_000 };
/**
 * With several servers this connection also detects that the one in use is silently gone: after a
 * connection to another one, statements that still wait for the former fail.
 */
const severalServers = { checkMs: 1000, responseMs: 3000, longestWaitMs: 1000 };

/** Resolves when it listens, or cannot for now. */
export async function openListenNotify(deps: ListenNotifyDeps): Promise<ListenNotify> {
  const publisher = createPublisher(deps);
  const listener = createListener(deps);
  await listener.tried;
  return {
    publish: publisher.publish,
    counted: publisher.counted,
    close: async () => {
      publisher.close();
      await listener.close();
    },
  };
}

function createPublisher({
  db,
  self,
  clock,
  generation,
}: ListenNotifyDeps): Omit<ListenNotify, 'close'> & { close(): void } {
  const waiting = new Map<string, Message>();
  const state = { busy: false, closed: false, isAlone: false };
  const retry = new AbortController();
  let failures = 0;

  const speak = async (): Promise<void> => {
    const payload = payloadOf(self, [...waiting.values()]);
    waiting.clear();
    const sentMs = clock.elapsedMs();
    try {
      await db.get`select pg_notify(${channel}, ${payload})`;
      failures = 0;
    } catch {
      failures += 1;
      // Those that poll rarely would otherwise be late.
      waiting.set('missed', { kind: 'missed' });
    }
    const tookMs = clock.elapsedMs() - sentMs;
    await sleep(
      clock,
      failures === 0 ? pauseOf(tookMs) : backoffMs(failures, unsent),
      retry.signal,
    );
  };
  const speakOn = async (): Promise<void> => {
    state.busy = true;
    while (waiting.size > 0 && !state.closed) await speak();
    state.busy = false;
  };

  return {
    publish: (hint) => {
      const word = messageOf(hint, generation());
      if (word === undefined || state.closed) return;
      if (word.kind === 'head' && state.isAlone) return;
      waiting.set(topicOf(word), word);
      if (!state.busy) void speakOn();
    },
    counted: (living) => {
      state.isAlone = living <= 1;
    },
    close: () => {
      state.closed = true;
      retry.abort();
    },
  };
}

function pauseOf(tookMs: number): number {
  return Math.min(pauseMs.most, Math.max(pauseMs.least, pauseFactor * tookMs));
}

/**
 * The one connection with session state. Behind a pooler that shares connections between
 * transactions it receives nothing; everything works without it, only later.
 */
function createListener(deps: ListenNotifyDeps): { tried: Promise<void>; close(): Promise<void> } {
  const { clock, onMessage, report, self, hosts, generation } = deps;
  const { checkMs, responseMs, longestWaitMs } = hosts.areSeveral ? severalServers : oneServer;
  let client: pg.Client | undefined;
  let timer: Timer | undefined;
  let closed = false;
  let failures = 0;

  const again = (): void => {
    if (closed) return;
    failures += 1;
    const waitMs = backoffMs(failures, { firstMs: firstWaitMs, maxMs: longestWaitMs });
    timer = clock.after(waitMs, () => void listen());
  };
  const listen = async (): Promise<void> => {
    try {
      await hosts.tryEach(listenOnce);
      // Before the first connection nothing can have been missed.
      if (failures > 0) onMessage({ kind: 'missed' });
      failures = 0;
    } catch (error) {
      if (failures === 0 && !closed) report(error);
      again();
    }
  };
  const listenOnce = async (): Promise<void> => {
    if (closed) throw new Error('The store is closed.');
    const connection = new hosts.Client({ query_timeout: responseMs });
    client = connection;
    connection.on('notification', ({ payload }) => {
      for (const word of messagesOf(payload ?? '', self)) onMessage(hintOf(word, generation()));
    });
    try {
      await connection.connect();
      await connection.query(`listen ${channel}`);
    } catch (error) {
      connection.end().catch(() => undefined);
      throw error;
    }
    const onLoss = once(() => {
      timer?.cancel();
      connection.end().catch(() => undefined);
      again();
    });
    connection.on('error', onLoss).on('end', onLoss);
    keepChecking(connection, onLoss);
  };
  const keepChecking = (connection: pg.Client, onLoss: () => void): void => {
    if (closed) return;
    timer = clock.after(checkMs, () => {
      connection.query('select 1').then(() => keepChecking(connection, onLoss), onLoss);
    });
  };

  return {
    tried: listen(),
    close: async () => {
      closed = true;
      timer?.cancel();
      await client?.end().catch(() => undefined);
    },
  };
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (!done) action();
    done = true;
  };
}
