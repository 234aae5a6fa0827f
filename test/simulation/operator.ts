import { StoreUnavailable } from '../../src/core/errors.ts';
import { removeStream, waitForOwner } from '../../src/api/wait-for-owner.ts';
import { applyPatch, type StreamPatch } from '../../src/core/streams.ts';
import type { NewEvent } from '../../src/core/types.ts';
import { runningOf } from '../store/contract/model-replays.ts';
import { newEvent, newStream } from '../store/contract/fixture.ts';
import { createPrng } from './prng.ts';
import { eventsOf, type OracleState } from './oracle.ts';
import type { Line } from './line.ts';
import { type NameMood, receiverOf } from './names.ts';
import type { Mood, Step, StepOf } from './plan.ts';
import type { Process } from './process.ts';
import type { TenantLog } from './tenant-log.ts';
import type { Simulation } from './simulation.ts';

/** Those who use Leat: publishers and operators, each through one process and over its faults. */
export interface Operator {
  /** Does what a step says, unless it does not apply; the rest of it goes on by itself. */
  act(step: Step): void;
  /** `tenant` is a number, modulo how many there are. */
  create(types: readonly string[], tenant: number): void;
  /** Publishes an event of each of these types in the log of a tenant. */
  publish(types: readonly string[], log: TenantLog): void;
  /** Asks for a test event. */
  test(line: Line): void;
  /** Starts a new cycle of every failure. */
  redeliverAll(line: Line): void;
  readonly moods: Map<Line, Mood>;
  /** Of the servers of the receivers' names. */
  readonly nameMoods: Map<Line, NameMood>;
  storeAwayUntilMs: number;
}

const secret = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=';

/** How often a publisher sends an event again that was not acknowledged. */
const publishTriesMax = 4;
const publishPauseMs = 120;
/** Every so-many-th redelivery is asked for whatever event. */
const anyEvent = 4;

export function createOperator(
  simulation: Simulation,
  processes: () => readonly Process[],
): Operator {
  const { oracle, sharedStore, timeline, plan } = simulation;
  const prng = createPrng(plan.seed, 'operator');
  const moods = new Map<Line, Mood>();
  const nameMoods = new Map<Line, NameMood>();
  /** Published so far, for repeating one of them. */
  const published = new Map(oracle.logs.map((log) => [log, [] as NewEvent[]]));
  let ids = 0;
  let moved = 0;
  let kept: { readonly tables: Uint8Array; readonly state: OracleState } | undefined;
  let replays = 0;

  const id = (prefix: 'evt' | 'est'): string => {
    ids += 1;
    return `${prefix}_${String(ids).padStart(22, '0')}`;
  };
  /** One that answers at all. */
  const anyProcess = (): Process | undefined => {
    const up = processes().filter(({ state }) => state === 'up');
    return up[prng.between(0, Math.max(0, up.length - 1))];
  };
  const logOf = (number = 0): TenantLog => {
    const log = oracle.logs[number % oracle.logs.length];
    if (log === undefined) throw new Error('There is no tenant.');
    return log;
  };
  const nodeOf = (number: number): Process | undefined => processes()[number % processes().length];
  const lineOf = (number: number): Line | undefined => {
    const lines = oracle.living().filter(({ isLeaving }) => !isLeaving);
    return lines[number % lines.length];
  };
  /** A command whose process ends never answers, and one that fails has said so. */
  const request = (what: string, work: (process: Process) => Promise<unknown>): void => {
    const process = anyProcess();
    if (process === undefined) return;
    simulation.note(process.name, what);
    work(process).catch((error: unknown) => {
      if (!(error instanceof StoreUnavailable)) oracle.break('unexpected', String(error));
    });
  };

  const publish = (tenant: number, events: readonly NewEvent[], tries: number): void => {
    const again = (): void => {
      if (tries < publishTriesMax) {
        timeline.after(publishPauseMs, () => publish(tenant, events, tries + 1));
      }
    };
    const process = anyProcess();
    if (process === undefined) return again();
    const labels = events.map((event) => `${simulation.label(event.id)} ${event.type}`);
    simulation.note(process.name, `is sent ${labels.join(', ')}`);
    process.store.log.append(tenant, events).then(
      (answers) => oracle.acknowledged(tenant, answers),
      (error: unknown) => {
        if (!(error instanceof StoreUnavailable)) oracle.break('log', String(error));
        simulation.note(process.name, `answers 503 to ${labels.join(', ')}`);
        again();
      },
    );
  };
  const patch = (line: Line, change: StreamPatch): void =>
    request(`is asked to change ${line.label}: ${JSON.stringify(change)}`, async (process) => {
      const now = process.clock.now();
      const totalLimit = plan.settings.disable.total;
      const answer = await process.store.streams.update(
        line.log.tenant,
        line.id,
        (before, { health, head }) => {
          const decision = applyPatch(before, change, { health, head, totalLimit, now });
          if (!('refused' in decision)) return decision;
          if (decision.refused === 'secret_missing') throw new Error('every move has its secret');
          return { refused: decision.refused };
        },
      );
      if ('updated' in answer) await isSeen(process, line, answer.updated.version);
    });
  /** As the management API answers: once nobody works by what was before. */
  const isSeen = async (process: Process, line: Line, version: number): Promise<void> => {
    await waitForOwner(process, { tenant: line.log.tenant, stream: line.id });
    line.knownVersion = Math.max(line.knownVersion, version);
  };

  const made = (types: readonly string[], log: TenantLog): NewEvent[] => {
    const events = types.map((type) =>
      newEvent({ id: id('evt'), type, chosen: true, time: timeline.nowMs }),
    );
    published.get(log)?.push(...events);
    return events;
  };

  const doings: { [Name in Step['do']]: (step: StepOf<Name>) => void } = {
    publish: ({ types, repeats, tenant }) => {
      const log = logOf(tenant);
      const events = made(types, log);
      // Of the very same batch, or of any before.
      const choices = prng.chance(0.5) ? events : (published.get(log) ?? []);
      const former = repeats ? choices[prng.between(0, choices.length - 1)] : undefined;
      if (former !== undefined) events.push(former);
      publish(log.tenant, events, 1);
    },
    create: ({ types, tenant, start }) => create(types, tenant, start),
    subscribe: ({ stream, types }) => {
      const line = lineOf(stream);
      if (line !== undefined) patch(line, { types });
    },
    move: ({ stream }) => {
      const line = lineOf(stream);
      if (line === undefined) return;
      moved += 1;
      const endpoint = `https://${receiverOf(line.label, line.log.tenant)}/${moved}`;
      const authorization = { method: 'bearer', token: `token-of-${line.label}-${moved}` } as const;
      patch(line, { destination: { type: 'webhook', endpoint, authorization } });
    },
    disable: ({ stream }) => {
      const line = lineOf(stream);
      if (line !== undefined) patch(line, { status: 'disabled' });
    },
    enable: ({ stream, resume }) => {
      // One that is disabled, if there is any.
      const disabled = oracle
        .living()
        .filter(({ counts, isLeaving }) => !counts.enabled && !isLeaving);
      const line = disabled[stream % Math.max(1, disabled.length)];
      if (line !== undefined) patch(line, { status: 'enabled', resume });
    },
    delete: ({ stream }) => {
      const line = lineOf(stream);
      if (line === undefined || oracle.living().length < 2) return;
      line.isLeaving = true;
      request(`is asked to delete ${line.label}`, (process) =>
        removeStream(process, { tenant: line.log.tenant, stream: line.id }),
      );
    },
    redeliver: ({ stream, pick }) => {
      const line = lineOf(stream);
      if (line === undefined) return;
      const failed = [...line.counts.rows.values()].filter(({ state }) => state === 'failed');
      // One that is no failure, delivered or not, is asked for now and then.
      const isAny = pick % anyEvent === 0;
      const among = isAny
        ? line.log.events.map((event) => event.id)
        : failed.map((row) => row.eventId);
      const eventId = among[pick % Math.max(1, among.length)];
      if (eventId === undefined) return;
      hinderOthers(line);
      request(`is asked to redeliver ${simulation.label(eventId)} of ${line.label}`, (process) =>
        process.store.deliveries.redeliver(line.log.tenant, line.id, eventId),
      );
    },
    redeliverAll: ({ stream }) => {
      const line = lineOf(stream);
      if (line !== undefined) redeliverAll(line);
    },
    test: ({ stream }) => {
      const line = lineOf(stream);
      if (line !== undefined) test(line);
    },
    replay: ({ stream, from }) => {
      const line = lineOf(stream);
      if (line === undefined) return;
      replays += 1;
      const replay = `rpl_${replays}`;
      const { tenant } = line.log;
      request(`is asked for ${replay} of ${line.label}`, async ({ store }) => {
        const to = await store.log.head(tenant);
        const range = { from: from % (to + 1), to, types: undefined };
        await store.replays.create({ tenant, stream: line.id, id: replay, ...range });
      });
    },
    cancelReplay: ({ stream }) => {
      const line = lineOf(stream);
      const replay = line && runningOf(line.counts)?.id;
      if (line === undefined || replay === undefined) return;
      request(`is asked to cancel ${replay} of ${line.label}`, async (process) => {
        await process.store.replays.cancel(line.log.tenant, line.id, replay);
      });
    },
    pruneLog: ({ agoMs, tenant }) =>
      request('prunes the log', (process) =>
        process.store.log.prune(logOf(tenant).tenant, { olderThanMs: agoMs, take: 10 }),
      ),
    pruneHistory: ({ agoMs }) =>
      request('prunes the history', (process) =>
        process.store.deliveries.pruneAttempts({ olderThanMs: agoMs, take: 10 }),
      ),
    mood: ({ stream, mood }) => {
      const line = lineOf(stream);
      if (line === undefined) return;
      moods.set(line, mood);
      simulation.note('receiver', `${line.label} is ${mood}`);
    },
    names: ({ stream, mood }) => {
      const line = lineOf(stream);
      if (line === undefined) return;
      nameMoods.set(line, mood);
      simulation.note('names', `the server of ${line.label} is ${mood}`);
    },
    storeAway: ({ ms }) => {
      operator.storeAwayUntilMs = timeline.nowMs + ms;
      simulation.note('store', `is away for ${ms} ms`);
    },
    crash: ({ node, command, phase }) => nodeOf(node)?.crash(command, phase),
    freeze: ({ node, command, ms }) => nodeOf(node)?.freeze(command, ms),
    leave: ({ node }) => nodeOf(node)?.leave(),
    keep: () => {
      void sharedStore.inTurn(() => {
        kept = { tables: sharedStore.snapshot(), state: oracle.snapshot() };
        simulation.note('store', `is kept with ${oracle.eventCount} events`);
        return Promise.resolve();
      });
    },
    goBack: ({ awayMs }) => {
      if (kept === undefined) return;
      const { tables, state } = kept;
      // Nothing is committed from here on that does not come after it.
      operator.storeAwayUntilMs = Math.max(operator.storeAwayUntilMs, timeline.nowMs + awayMs);
      void sharedStore.inTurn(() => {
        const { leaseMs } = plan.settings;
        simulation.note(
          'store',
          `goes back from ${oracle.eventCount} to ${eventsOf(state)} events`,
        );
        sharedStore.restore(tables, leaseMs);
        oracle.restore(state, leaseMs);
        simulation.disturb();
        if (prng.chance(0.5)) sharedStore.emit({ kind: 'replaced' });
        return Promise.resolve();
      });
    },
    // The world does these.
    watchDisk: () => undefined,
    powerCut: () => undefined,
    lull: () => undefined,
    storeJump: () => undefined,
    storeStand: () => undefined,
    jump: ({ node, ms }) => {
      const process = nodeOf(node);
      if (process === undefined) return;
      process.jump(ms);
      simulation.note(process.name, `its wall clock jumps by ${ms} ms`);
    },
    stand: ({ node, ms }) => {
      const process = nodeOf(node);
      if (process === undefined) return;
      process.stand(ms);
      simulation.note(process.name, `its wall clock stands still for ${ms} ms`);
    },
    suspend: ({ node, ms }) => nodeOf(node)?.suspend(ms),
  };
  /** Begins at an event that the log has, or had a moment ago; at the head without `start`. */
  const create = (types: readonly string[], number = 0, start?: number): void => {
    const log = logOf(number);
    const streamId = id('est');
    const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
    const receiver = receiverOf(simulation.label(streamId), log.tenant);
    const options = newStream(log.tenant, 0, {
      id: streamId,
      types: [...types],
      signingSecrets,
      destination: {
        type: 'webhook',
        endpoint: `https://${receiver}/leat`,
        authorization: { method: 'bearer', token: 'kept-secret' },
      },
    });
    const from = start === undefined ? '' : ', from an earlier event on';
    const what = `is asked to create ${simulation.label(streamId)} for ${types.join(', ')}${from}`;
    request(what, async ({ store }) => {
      const cursor = start === undefined ? undefined : await startOf(store, log, start);
      await store.streams.create({ ...options, cursor }, { streamsMax: 100 });
    });
  };
  /** As the management API does: not before the oldest event. */
  const startOf = async (store: Process['store'], log: TenantLog, start: number): Promise<number> =>
    Math.max(start % (log.head + 1), (await store.log.firstSince(log.tenant, 0)) - 1);
  const test = (line: Line): void => {
    const event = newEvent({ id: id('evt'), type: 'a.made', time: timeline.nowMs });
    request(`is asked for the test ${simulation.label(event.id)} of ${line.label}`, (process) =>
      process.store.deliveries.addTest(line.log.tenant, line.id, event),
    );
  };
  const redeliverAll = (line: Line): void => {
    hinderOthers(line);
    request(`is asked to redeliver all failures of ${line.label}`, (process) =>
      process.store.deliveries.redeliverMany(line.log.tenant, line.id, {}),
    );
  };
  /**
   * The owner of a disabled stream keeps it until the leases of the rows that it sent have ended, and
   * may be at its share meanwhile: a new stream waits for the next heartbeat.
   */
  const hinderOthers = ({ counts }: Line): void => {
    if (!counts.enabled) simulation.hinder();
  };
  const operator: Operator = {
    act: (step) => (doings[step.do] as (options: Step) => void)(step),
    create,
    publish: (types, log) => publish(log.tenant, made(types, log), 1),
    test,
    redeliverAll,
    moods,
    nameMoods,
    storeAwayUntilMs: 0,
  };
  return operator;
}
