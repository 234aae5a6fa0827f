import { dayMs } from '../../src/core/units.ts';
import { StoreTenantGone, StoreUnavailable } from '../../src/core/errors.ts';
import { Problem } from '../../src/api/http/problem.ts';
import { removeStream, waitForOwner } from '../../src/api/wait-for-owner.ts';
import { applyPatch, type StreamPatch } from '../../src/core/streams.ts';
import type { DeliveryOptions, NewEvent } from '../../src/core/types.ts';
import type { ModelRow } from '../store/contract/model.ts';
import type { NewFailureWork } from '../../src/store/port/failure-work.ts';
import type { RemovalQuery } from '../../src/store/port/tenants.ts';
import type { FailureSelection } from '../../src/store/port/failures.ts';
import { runningOf } from '../store/contract/model-replays.ts';
import { newEvent, newStream } from '../store/contract/fixture.ts';
import { createPrng } from './prng.ts';
import { removeTenant } from '../../src/upkeep/tenant-removal.ts';
import { eventsOf, type OracleState } from './oracle.ts';
import { filterFor, type SimulatedStream } from './simulated-stream.ts';
import { type NameServerBehaviour, receiverOf } from './names.ts';
import type { ReceiverBehaviour, Step, StepOf } from './plan.ts';
import type { WorkKind } from './failure-works.ts';
import type { Process } from './process.ts';
import type { TenantLog } from './tenant-log.ts';
import type { Simulation } from './simulation.ts';

/** The users of Leat: publishers and operators, each through one process and its faults. */
export interface Operator {
  /** Starts a step, unless it does not apply. */
  act(step: Step): void;
  /** `tenant` is a number, modulo how many there are. */
  create(types: readonly string[], tenant: number, delivery?: DeliveryOptions): void;
  /** Publishes an event of each of these types in the log of a tenant. */
  publish(types: readonly string[], log: TenantLog): void;
  /** Requests a test event. */
  test(stream: SimulatedStream): void;
  /** Dismisses every failure. */
  dismissAll(stream: SimulatedStream): void;
  /** Starts a new cycle of every failure. */
  redeliverAll(stream: SimulatedStream): void;
  /** Continues removals of tenants that were interrupted. */
  continueRemovals(): void;
  /** Continues redeliveries and dismissals that processes have left undone. */
  continueWork(): void;
  readonly behaviours: Map<SimulatedStream, ReceiverBehaviour>;
  /** The behaviour of the name server of each receiver. */
  readonly nameServerBehaviours: Map<SimulatedStream, NameServerBehaviour>;
  storeDownUntilMs: number;
}

const secret = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=';

/** Tries of a publisher for an event that is not acknowledged. */
const publishTriesMax = 4;
const publishPauseMs = 120;
/** Between requests for the same removal, and how many rows a step of the last ones removes. */
const removalPauseMs = 2000;
const removedRows = 1000;
/** Most of the requests about many failures wait until there are some. */
const failuresMax = 6;
const failureTriesMax = 20;
const failurePauseMs = 50;
/** Every fourth redelivery is requested for any event, failed or not. */
const anyEvent = 4;
/** Every third dismissal is of all failures of a stream. */
const allFailures = 3;

const failedOf = ({ counts }: SimulatedStream): ModelRow[] =>
  [...counts.rows.values()].filter(({ state }) => state === 'failed');

export function createOperator(
  simulation: Simulation,
  processes: () => readonly Process[],
): Operator {
  const { oracle, sharedStore, timeline, plan } = simulation;
  const prng = createPrng(plan.seed, 'operator');
  const historyMs = plan.upkeep?.attemptRetentionMs ?? dayMs;
  const behaviours = new Map<SimulatedStream, ReceiverBehaviour>();
  const nameServerBehaviours = new Map<SimulatedStream, NameServerBehaviour>();
  /** Published so far, for repeating one of them. */
  const published = new Map(oracle.logs.map((log) => [log, [] as NewEvent[]]));
  let ids = 0;
  let moved = 0;
  let lastSnapshot: { readonly tables: Uint8Array; readonly state: OracleState } | undefined;
  let replays = 0;
  let works = 0;
  /** When the removal of a tenant was last requested. */
  const removedAtMs = new Map<TenantLog, number>();

  const id = (prefix: 'evt' | 'est'): string => {
    ids += 1;
    return `${prefix}_${String(ids).padStart(22, '0')}`;
  };
  /** Returns a running process. */
  const anyProcess = (): Process | undefined => {
    const up = processes().filter(({ state }) => state === 'up');
    return up[prng.between(0, Math.max(0, up.length - 1))];
  };
  const logOf = (number = 0): TenantLog => {
    const logs = oracle.logs.filter(({ isBeingRemoved }) => !isBeingRemoved);
    const log = logs[number % logs.length];
    if (log === undefined) throw new Error('There is no tenant.');
    return log;
  };
  const logOfTenant = (tenant: number): TenantLog => oracle.logOf(tenant);
  const nodeOf = (number: number): Process | undefined => processes()[number % processes().length];
  const streamOf = (number: number): SimulatedStream | undefined => {
    const streams = oracle.existing().filter(({ isBeingDeleted }) => !isBeingDeleted);
    return streams[number % streams.length];
  };
  /** Runs a command in some process. It never settles when the process ends. */
  const request = (what: string, work: (process: Process) => Promise<unknown>): void => {
    const process = anyProcess();
    if (process === undefined) return;
    simulation.note(process.name, what);
    work(process).catch((error: unknown) => {
      // Both are a 503.
      const isReported = error instanceof StoreUnavailable || error instanceof Problem;
      if (!isReported) oracle.violate('unexpected', String(error));
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
    simulation.note(process.name, `receives ${labels.join(', ')}`);
    process.store.log.append(tenant, events).then(
      (appended) => oracle.acknowledged(tenant, appended),
      (error: unknown) => {
        const isGone = error instanceof StoreTenantGone && logOfTenant(tenant).isBeingRemoved;
        if (isGone) return simulation.note(process.name, `responds 404 to ${labels.join(', ')}`);
        if (!(error instanceof StoreUnavailable)) oracle.violate('log', String(error));
        simulation.note(process.name, `responds 503 to ${labels.join(', ')}`);
        again();
      },
    );
  };
  const patch = (stream: SimulatedStream, change: StreamPatch): void =>
    request(
      `receives a request to change ${stream.label}: ${JSON.stringify(change)}`,
      (process) => {
        const now = process.clock.now();
        const totalLimit = plan.settings.disable.total;
        return update(process, stream, (before, { health, head }) => {
          const decision = applyPatch(before, change, { health, head, totalLimit, now });
          if (!('refused' in decision)) return decision;
          if (decision.refused === 'too_many_failures') return { refused: decision.refused };
          throw new Error(`every move is valid, but: ${decision.refused}`);
        });
      },
    );
  const remove = (stream: SimulatedStream): void => {
    const left = oracle.existing().filter(({ isBeingDeleted }) => !isBeingDeleted);
    if (left.length < 2 || stream.isBeingDeleted) return;
    stream.isBeingDeleted = true;
    request(`receives a request to delete ${stream.label}`, (process) =>
      removeStream(process, { tenant: stream.log.tenant, stream: stream.id }, process.store),
    );
  };
  const setPaused = (stream: SimulatedStream, isPaused: boolean): void =>
    request(`receives a request to ${isPaused ? 'pause' : 'resume'} ${stream.label}`, (process) => {
      const paused = isPaused ? { at: process.clock.now() } : undefined;
      return update(process, stream, (before) => ({ after: { ...before, paused } }));
    });
  /** Changes a stream and waits as the management API does: until its owner has seen the change. */
  const update = async (
    process: Process,
    stream: SimulatedStream,
    decide: Parameters<Process['store']['streams']['update']>[2],
  ): Promise<void> => {
    const { generation } = sharedStore;
    const { tenant } = stream.log;
    const result = await process.store.streams.update(tenant, stream.id, decide);
    if (!('updated' in result)) return;
    await waitForOwner(process, { tenant, stream: stream.id });
    // A change that was lost with an earlier state of the store is not in force.
    if (sharedStore.generation !== generation) return;
    if (result.updated.version <= stream.knownVersion) return;
    stream.knownVersion = result.updated.version;
    stream.knownAt = stream.log.head;
  };

  const made = (types: readonly string[], log: TenantLog): NewEvent[] => {
    const events = types.map((type) =>
      newEvent({ id: id('evt'), type, chosen: true, time: timeline.nowMs }),
    );
    published.get(log)?.push(...events);
    return events;
  };

  const actions: { [Name in Step['do']]: (step: StepOf<Name>) => void } = {
    publish: ({ types, repeats, tenant }) => {
      const log = logOf(tenant);
      const events = made(types, log);
      // From the same batch, or from an earlier one.
      const choices = prng.chance(0.5) ? events : (published.get(log) ?? []);
      const former = repeats ? choices[prng.between(0, choices.length - 1)] : undefined;
      if (former !== undefined) events.push(former);
      publish(log.tenant, events, 1);
    },
    create: ({ types, tenant, start, filter }) => create(types, tenant, undefined, start, filter),
    subscribe: ({ stream: number, types }) => {
      const stream = streamOf(number);
      if (stream !== undefined) patch(stream, { types });
    },
    filter: ({ stream: number, types }) => {
      const stream = streamOf(number);
      if (stream !== undefined)
        patch(stream, { filter: types === undefined ? null : filterFor(types) });
    },
    changeDestination: ({ stream: number }) => {
      const stream = streamOf(number);
      if (stream === undefined) return;
      moved += 1;
      const endpoint = `https://${receiverOf(stream.label, stream.log.tenant)}/${moved}`;
      const authorization = {
        method: 'bearer',
        token: `token-of-${stream.label}-${moved}`,
      } as const;
      patch(stream, { destination: { type: 'webhook', endpoint, authorization } });
    },
    disable: ({ stream: number }) => {
      const stream = streamOf(number);
      if (stream !== undefined) patch(stream, { status: 'disabled' });
    },
    enable: ({ stream: number, resume }) => {
      // A disabled stream, if there is one.
      const disabled = oracle
        .existing()
        .filter(({ counts, isBeingDeleted }) => !counts.enabled && !isBeingDeleted);
      const stream = disabled[number % Math.max(1, disabled.length)];
      if (stream !== undefined) patch(stream, { status: 'enabled', resume });
    },
    pause: ({ stream: number }) => {
      const stream = streamOf(number);
      if (stream !== undefined) setPaused(stream, true);
    },
    resume: ({ stream: number }) => {
      const paused = oracle
        .existing()
        .filter(({ counts, isBeingDeleted }) => counts.paused && !isBeingDeleted);
      const stream = paused[number % Math.max(1, paused.length)];
      if (stream !== undefined) setPaused(stream, false);
    },
    delete: ({ stream: number }) => {
      const stream = streamOf(number);
      if (stream !== undefined) remove(stream);
    },
    deleteAll: ({ tenant }) => {
      for (const stream of oracle.existing()) if (stream.log === logOf(tenant)) remove(stream);
    },
    removeTenant: ({ tenant, take }) => {
      // Not the first one, which the next start would create again.
      const others = oracle.logs.filter((log, index) => index > 0 && !log.isBeingRemoved);
      const wanted = oracle.logs[tenant % oracle.logs.length];
      const log = others.find((one) => one === wanted) ?? others[0];
      if (log === undefined) return;
      log.isBeingRemoved = true;
      for (const stream of oracle.streams.values())
        if (stream.log === log) stream.isBeingDeleted = true;
      deleteTenant(log, take);
    },
    redeliver: ({ stream: number, pick }) => {
      const stream = streamOf(number);
      if (stream === undefined) return;
      const failed = failedOf(stream);
      // Some requests name an event that has not failed.
      const isAny = pick % anyEvent === 0;
      const among = isAny
        ? stream.log.events.map((event) => event.id)
        : failed.map((row) => row.eventId);
      const eventId = among[pick % Math.max(1, among.length)];
      if (eventId === undefined) return;
      noteDelayOfOthers(stream);
      request(
        `receives a request to redeliver ${simulation.label(eventId)} of ${stream.label}`,
        (process) =>
          process.store.deliveries.redeliver(
            stream.log.tenant,
            stream.id,
            eventId,
            plan.settings.retry !== undefined,
          ),
      );
    },
    dismiss: ({ stream: number, pick }) => {
      // A stream with failures, if there is one.
      const failing = oracle.existing().filter((each) => failedOf(each).length > 0);
      const stream = failing[number % Math.max(1, failing.length)];
      if (stream === undefined || stream.isBeingDeleted) return;
      const failed = failedOf(stream);
      const eventId = failed[pick % failed.length]?.eventId;
      if (eventId === undefined) return;
      const isAll = pick % allFailures === 0;
      const what = isAll ? 'all failures' : simulation.label(eventId);
      dismiss(stream, isAll ? {} : { eventIds: [eventId] }, what);
    },
    startRedelivery: (step) =>
      beginOnFailures(step, (log) =>
        beginWork('redeliveries', log, selectedBy(step, log), `a redelivery of ${step.by}`),
      ),
    startDismissal: (step) =>
      beginOnFailures(step, (log) =>
        beginWork('dismissals', log, selectedBy(step, log), `a dismissal of ${step.by}`),
      ),
    reopen: ({ tenant: number, pick }) => {
      const { tenant } = logOf(number);
      const among = oracle.works.dismissals(tenant);
      const dismissal = among[pick % Math.max(1, among.length)];
      if (dismissal === undefined) return;
      request(`receives a request to reopen ${dismissal}`, async ({ store, failureSteps }) => {
        const { dismissals } = store;
        const result = await dismissals.reopen(tenant, dismissal, plan.settings.disable.total);
        if (result === 'accepted')
          failureSteps.begin(dismissal, () => dismissals.step(tenant, dismissal, historyMs));
      });
    },
    cancelRedelivery: ({ tenant: number, pick }) => {
      const { tenant } = logOf(number);
      const running = oracle.works.redeliveries(tenant);
      const redelivery = running[pick % Math.max(1, running.length)];
      if (redelivery === undefined) return;
      request(`receives a request to cancel ${redelivery}`, async ({ store: { redeliveries } }) => {
        const { generation } = sharedStore;
        const result = await redeliveries.cancel(tenant, redelivery);
        if (result !== 'cancelled' && result !== 'cancelling') return;
        while ((await redeliveries.step(tenant, redelivery, historyMs)) !== 'done');
        if (sharedStore.generation === generation) oracle.works.cancellationDone(redelivery);
      });
    },
    redeliverAll: ({ stream: number }) => {
      const stream = streamOf(number);
      if (stream !== undefined) redeliverAll(stream);
    },
    retryNow: ({ stream: number }) => {
      const stream = streamOf(number);
      if (stream === undefined) return;
      noteDelayOfOthers(stream);
      request(`receives a request to retry what waits of ${stream.label}`, ({ store }) =>
        store.deliveries.retryNow(stream.log.tenant, stream.id),
      );
    },
    test: ({ stream: number }) => {
      const stream = streamOf(number);
      if (stream !== undefined) test(stream);
    },
    replay: ({ stream: number, from }) => {
      const stream = streamOf(number);
      if (stream === undefined) return;
      replays += 1;
      const replay = `rpl_${replays}`;
      const { tenant } = stream.log;
      request(`receives a request for ${replay} of ${stream.label}`, async ({ store }) => {
        const to = await store.log.head(tenant);
        const range = { from: from % (to + 1), to, types: undefined };
        await store.replays.create({ tenant, stream: stream.id, id: replay, ...range });
      });
    },
    cancelReplay: ({ stream: number }) => {
      const stream = streamOf(number);
      const replay = stream && runningOf(stream.counts)?.id;
      if (stream === undefined || replay === undefined) return;
      request(`receives a request to cancel ${replay} of ${stream.label}`, async (process) => {
        await process.store.replays.cancel(stream.log.tenant, stream.id, replay);
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
    changeReceiver: ({ stream: number, behaviour }) => {
      const stream = streamOf(number);
      if (stream === undefined) return;
      behaviours.set(stream, behaviour);
      simulation.note('receiver', `${stream.label} is ${behaviour}`);
    },
    changeNameServer: ({ stream: number, behaviour }) => {
      const stream = streamOf(number);
      if (stream === undefined) return;
      nameServerBehaviours.set(stream, behaviour);
      simulation.note('names', `the server of ${stream.label} is ${behaviour}`);
    },
    storeOutage: ({ ms }) => {
      operator.storeDownUntilMs = timeline.nowMs + ms;
      simulation.note('store', `is unavailable for ${ms} ms`);
    },
    crash: ({ node, command, phase }) => nodeOf(node)?.crash(command, phase),
    freeze: ({ node, command, ms }) => nodeOf(node)?.freeze(command, ms),
    leave: ({ node }) => nodeOf(node)?.leave(),
    snapshot: () => {
      void sharedStore.exclusive(() => {
        lastSnapshot = { tables: sharedStore.snapshot(), state: oracle.snapshot() };
        simulation.note('store', `takes a snapshot of ${oracle.eventCount} events`);
        return Promise.resolve();
      });
    },
    restore: ({ awayMs }) => {
      if (lastSnapshot === undefined) return;
      const { tables, state } = lastSnapshot;
      // Nothing is committed between the request and the restore.
      operator.storeDownUntilMs = Math.max(operator.storeDownUntilMs, timeline.nowMs + awayMs);
      void sharedStore.exclusive(() => {
        const { leaseMs } = plan.settings;
        simulation.note(
          'store',
          `is restored from ${oracle.eventCount} to ${eventsOf(state)} events`,
        );
        sharedStore.restore(tables, leaseMs);
        oracle.restore(state, leaseMs);
        simulation.noteFault();
        if (prng.chance(0.5)) sharedStore.emit({ kind: 'replaced' });
        return Promise.resolve();
      });
    },
    // play.ts does these.
    recordDisk: () => undefined,
    powerCut: () => undefined,
    pauseFaults: () => undefined,
    jumpStoreClock: () => undefined,
    stopStoreClock: () => undefined,
    jumpClock: ({ node, ms }) => {
      const process = nodeOf(node);
      if (process === undefined) return;
      process.jumpClock(ms);
      simulation.note(process.name, `its wall clock jumps by ${ms} ms`);
    },
    stopClock: ({ node, ms }) => {
      const process = nodeOf(node);
      if (process === undefined) return;
      process.stopClock(ms);
      simulation.note(process.name, `its wall clock stops for ${ms} ms`);
    },
    suspend: ({ node, ms }) => nodeOf(node)?.suspend(ms),
  };
  /** Creates a stream that begins at an event that the log has, or had a moment ago; at the head without `start`. */
  const create = (
    types: readonly string[],
    number = 0,
    delivery?: DeliveryOptions,
    start?: number,
    filter?: readonly string[],
  ): void => {
    const log = logOf(number);
    const streamId = id('est');
    const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
    const receiver = receiverOf(simulation.label(streamId), log.tenant);
    const options = newStream(log.tenant, 0, {
      id: streamId,
      types: [...types],
      ...(filter && { filter: filterFor(filter) }),
      signingSecrets,
      delivery,
      destination: {
        type: 'webhook',
        endpoint: `https://${receiver}/leat`,
        authorization: { method: 'bearer', token: 'kept-secret' },
      },
    });
    const from = start === undefined ? '' : ', from an earlier event on';
    const what = `receives a request to create ${simulation.label(streamId)} for ${types.join(', ')}${from}`;
    request(what, async ({ store }) => {
      const cursor = start === undefined ? undefined : await startOf(store, log, start);
      await store.streams.create({ ...options, cursor }, { streamsMax: 100 });
    });
  };
  /** Returns the start as the management API does: not before the oldest event. */
  const startOf = async (store: Process['store'], log: TenantLog, start: number): Promise<number> =>
    Math.max(start % (log.head + 1), (await store.log.firstSince(log.tenant, 0)) - 1);
  const test = (stream: SimulatedStream): void => {
    const event = newEvent({ id: id('evt'), type: 'a.made', time: timeline.nowMs });
    request(
      `receives a request for the test ${simulation.label(event.id)} of ${stream.label}`,
      (process) => process.store.deliveries.addTest(stream.log.tenant, stream.id, event),
    );
  };
  const dismiss = (stream: SimulatedStream, selection: FailureSelection, what: string): void =>
    beginWork('dismissals', stream.log, { streams: [stream.id], selection }, what);
  /** Accepts a request about many failures as the management API does. */
  const beginWork = (
    kind: WorkKind,
    { tenant }: TenantLog,
    selected: Pick<NewFailureWork, 'streams' | 'selection'>,
    what: string,
  ): void => {
    works += 1;
    const workId = `${kind === 'dismissals' ? 'dsm' : 'rdl'}_${String(works).padStart(4, '0')}`;
    const among = selected.streams?.map(simulation.label).join(', ') ?? 'all streams';
    const about = `${workId}, ${what} of ${among}`;
    request(`receives a request for ${about}`, async ({ store, failureSteps }) => {
      const accepted = { tenant, id: workId, ...selected, createdBy: 'robot' };
      if ((await store[kind].create(accepted)) !== 'accepted') return;
      failureSteps.begin(workId, () => store[kind].step(tenant, workId, historyMs));
    });
  };
  const redeliverAll = (stream: SimulatedStream): void => {
    noteDelayOfOthers(stream);
    request(`receives a request to redeliver all failures of ${stream.label}`, (process) =>
      process.store.deliveries.redeliverMany(stream.log.tenant, stream.id, {}),
    );
  };
  /**
   * The owner of a disabled stream keeps it until the leases of its sent rows have ended. Meanwhile it
   * may have its share of streams, so that a new stream waits for the next heartbeat.
   */
  const noteDelayOfOthers = ({ counts }: SimulatedStream): void => {
    if (!counts.enabled) simulation.noteDelay();
  };
  /** Waits for failures before a request about many of them, for some time. */
  const beginOnFailures = (
    step: Pick<StepOf<'startRedelivery' | 'startDismissal'>, 'tenant' | 'pick'>,
    begin: (log: TenantLog) => void,
    tries = 1,
  ): void => {
    const log = logOf(step.tenant);
    const failed = oracle
      .existing()
      .filter((stream) => stream.log === log)
      .reduce((sum, stream) => sum + failedOf(stream).length, 0);
    if (failed > step.pick % failuresMax) return begin(log);
    if (tries < failureTriesMax)
      timeline.after(failurePauseMs, () => beginOnFailures(step, begin, tries + 1));
  };
  /** Returns what a request about many failures selects. */
  const selectedBy = (
    { by, pick }: StepOf<'startRedelivery' | 'startDismissal'>,
    { tenant }: TenantLog,
  ): Pick<NewFailureWork, 'streams' | 'selection'> => {
    const among = oracle
      .existing()
      .filter(({ log, isBeingDeleted }) => log.tenant === tenant && !isBeingDeleted)
      .map((stream) => stream.id);
    const some = among.filter((_, index) => (pick >> (index % 16)) % 2 === 0);
    if (by === 'streams') return { streams: some, selection: {} };
    if (by === 'types') return { streams: undefined, selection: { types: ['a.made'] } };
    if (by === 'codes') return { streams: undefined, selection: { codes: ['http_5xx', 'reset'] } };
    return { streams: undefined, selection: {} };
  };
  /** Deletes a tenant as the command does, with `take` rows a step; repeats it after a 503. */
  const deleteTenant = (log: TenantLog, take: number): void => {
    removedAtMs.set(log, timeline.nowMs);
    const { tenant } = log;
    request(`receives a request to remove tenant ${tenant}`, async ({ store, clock }) => {
      const { generation } = sharedStore;
      const tenants = {
        ...store.tenants,
        removeStep: (of: number, query: RemovalQuery) =>
          store.tenants.removeStep(of, { ...query, take }),
      };
      try {
        await tenants.leave(tenant);
        if (sharedStore.generation === generation) log.isRemovalKnown = true;
        const never = new AbortController().signal;
        await removeTenant({ store: { tenants }, clock }, tenant, () => undefined, never);
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        timeline.after(publishPauseMs, () => deleteTenant(log, take));
      }
    });
  };
  /** Continues removals that were interrupted, as the command does when it runs again. */
  const continueRemovals = (): void => {
    for (const log of oracle.logs) {
      const isLate = timeline.nowMs - (removedAtMs.get(log) ?? 0) > removalPauseMs;
      if (log.removal === 'leaving' && isLate) deleteTenant(log, removedRows);
    }
  };
  /** Continues what ended processes have left, as upkeep does. */
  const continueWork = (): void => {
    for (const kind of ['redeliveries', 'dismissals'] as const) {
      request(`continues ${kind}`, async ({ store }) => {
        for (const { tenant, id: workId } of await store[kind].unfinished(100))
          await store[kind].step(tenant, workId, historyMs);
      });
    }
  };
  const operator: Operator = {
    continueRemovals,
    continueWork,
    act: (step) => (actions[step.do] as (options: Step) => void)(step),
    create,
    publish: (types, log) => publish(log.tenant, made(types, log), 1),
    test,
    dismissAll: (stream) => dismiss(stream, {}, 'all failures'),
    redeliverAll,
    behaviours,
    nameServerBehaviours,
    storeDownUntilMs: 0,
  };
  return operator;
}
