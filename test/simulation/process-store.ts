import { Problem } from '../../src/api/http/problem.ts';
import { StoreContentRefused } from '../../src/core/errors.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { FailureWorkStore } from '../../src/store/port/failure-work.ts';
import type { Store } from '../../src/store/port/store.ts';
import type { WorkKind } from './failure-works.ts';
import { processOf } from './oracle-core.ts';
import type { Joined } from './process.ts';
import { selectedTypes } from './simulated-stream.ts';
import { selectionNow } from '../../src/core/subscription.ts';
import { unstorableMark } from './receivers.ts';
import { type Exclusive, upkeepStore } from './upkeep.ts';
import type { Simulation } from './simulation.ts';

/** Throws the 401 of a request for a tenant that is unknown by now. */
function refuseRemoved(oracle: Simulation['oracle'], about: unknown): void {
  const tenant = typeof about === 'number' ? about : (about as { readonly tenant: number }).tenant;
  if (oracle.logOf(tenant).removal !== 'none') throw new Problem(401, 'Unauthorized');
}

/** Returns the store of a process; the oracle notes each command right after it took effect. */
export function storeOf(
  simulation: Simulation,
  options: {
    readonly name: string;
    readonly joined: Joined;
    /** Sends a command over the network of the process. */
    readonly command: <T>(what: string, run: () => Promise<T>) => Promise<T>;
    /** Receive the hints of the store. */
    readonly listeners: Set<(hint: Hint) => void>;
  },
): Store {
  const { sharedStore, oracle } = simulation;
  const { name, joined, command, listeners } = options;
  const exclusive: Exclusive =
    (what, run, note) =>
    (...args) =>
      command(what, () =>
        sharedStore.exclusive(async () => {
          const result = await run(...args);
          note?.(result, ...args);
          return result;
        }),
      );

  /** A command of an operator: the API refuses it once the tenant is unknown. */
  const requested: Exclusive = (what, run, note) =>
    exclusive(
      what,
      async (...args) => {
        refuseRemoved(oracle, args[0]);
        return run(...args);
      },
      note,
    );

  const { log, streams, deliveries, dismissals, redeliveries, replays, ownership, tenants } =
    sharedStore.store;
  const { now } = simulation;
  const settle: Store['deliveries']['settle'] = async (node, batch, settlements, limits) => {
    const texts = settlements.flatMap(({ outcomes }) =>
      outcomes.map((outcome) => ('error' in outcome ? outcome.error : '')),
    );
    if (texts.some((text) => text.includes(unstorableMark))) {
      throw new StoreContentRefused('such bytes cannot be stored');
    }
    const before = oracle.tables.attemptsRecorded();
    const settled = await deliveries.settle(node, batch, settlements, limits);
    oracle.results.settled({ node, batch, settlements, limits }, settled, before);
    settled.forEach(({ result }, index) => {
      const { stream = '' } = settlements[index] ?? {};
      if (result === 'lost') oracle.removals.refused(processOf(node), stream);
    });
    const outcomes = settlements.flatMap((settlement) =>
      settlement.outcomes.map(
        ({ event, result, attempt }) =>
          `${simulation.label(settlement.stream)} ${simulation.label(event.id)}/${attempt} ${result}`,
      ),
    );
    simulation.note(name, `settles ${batch}: ${outcomes.join(', ')}`);
    return settled;
  };
  const update: Store['streams']['update'] = (tenant, id, decide) => {
    let resume: 'latest' | 'held' | undefined;
    const deciding: typeof decide = (before, present) => {
      const decision = decide(before, present);
      resume = 'after' in decision ? decision.resume : undefined;
      return decision;
    };
    const updating: typeof update = () => streams.update(tenant, id, deciding);
    return requested('update', updating, (result) => {
      if (!('updated' in result)) return;
      oracle.updated(result.updated, { resume, isHeld: result.held !== undefined }, now());
    })(tenant, id, decide);
  };
  const worksOf = (kind: WorkKind): FailureWorkStore => {
    const works = sharedStore.store[kind];
    return {
      create: requested('accept', works.create, (result, request) => {
        if (result === 'accepted') oracle.works.accepted(kind, request, now());
      }),
      step: exclusive('stepOf', works.step, (result, tenant, id) => {
        if (oracle.logOf(tenant).removal !== 'none') return;
        const stream = oracle.works.stepped(id, result, now());
        if (stream === undefined) return;
        // Its owner keeps it until the leases of its sent rows have ended.
        if (!stream.counts.enabled) simulation.noteDelay();
        simulation.note(name, `works on ${id} of ${stream.label}: ${result}`);
      }),
      unfinished: exclusive('unfinished', works.unfinished),
      prune: exclusive('pruneWorks', works.prune, () => oracle.works.pruned()),
    };
  };
  return {
    ...sharedStore.store,
    log: {
      // Not exclusive: appends of several callers share a commit.
      append: (...args) =>
        command('append', () => {
          const results = log.append(...args);
          results.then(
            (appended) => oracle.committed(appended),
            () => undefined,
          );
          return results;
        }),
      head: exclusive('head', log.head),
      heads: exclusive('heads', log.heads),
      headMarks: exclusive('headMarks', log.headMarks),
      page: exclusive('page', log.page),
      firstSince: exclusive('firstSince', log.firstSince),
      prune: exclusive('prune', log.prune, (count, tenant, query) =>
        oracle.pruned(tenant, query, count),
      ),
    },
    streams: {
      ...streams,
      create: requested('create', streams.create, (result, { cursor }) => {
        if (!('created' in result)) return;
        const types = selectedTypes(selectionNow(result.created.subscriptions));
        oracle.created(result.created, types, cursor);
      }),
      update,
      delete: requested('delete', streams.delete, (isDeleted, _, id) => {
        if (isDeleted) oracle.deleted(id);
      }),
    },
    deliveries: {
      ...deliveries,
      redeliver: requested('redeliver', deliveries.redeliver, (result, _, stream, eventId) => {
        oracle.results.redeliverReturned(stream, eventId, result);
        if (result === 'accepted') oracle.results.redelivered(stream, [eventId], now());
      }),
      redeliverMany: requested('redeliverMany', deliveries.redeliverMany, (count, _, stream) =>
        oracle.results.redeliveredAll(stream, count, now()),
      ),
      addTest: requested('addTest', deliveries.addTest, (result, _, stream, event) => {
        if (result === 'accepted') oracle.results.tested(stream, event.id, now());
      }),
      claimDue: exclusive('claimDue', deliveries.claimDue, (results, requests) => {
        oracle.results.claimedDue(requests, now(), results);
        const rows = results.flatMap(({ rows: taken }) => taken.map(({ event }) => event.id));
        if (rows.length > 0)
          simulation.note(name, `claims rows: ${rows.map(simulation.label).join(', ')}`);
      }),
      settle: exclusive('settle', settle),
      retryNow: requested('retryNow', deliveries.retryNow, (count, _, stream) =>
        oracle.results.retriedNow(stream, count, now()),
      ),
      releaseWaiting: exclusive(
        'releaseWaiting',
        deliveries.releaseWaiting,
        (released, request) => {
          oracle.results.released(request, released, now());
          simulation.note(
            name,
            `releases ${released.due} rows of ${simulation.label(request.stream)}`,
          );
        },
      ),
      bringForward: exclusive('bringForward', deliveries.bringForward, (found, request) => {
        oracle.results.broughtForward(request, found, now());
        const what = found === undefined ? 'nothing' : simulation.label(found.eventId);
        simulation.note(name, `tries ${what} of ${simulation.label(request.stream)}`);
      }),
      pruneAttempts: exclusive('pruneAttempts', deliveries.pruneAttempts, (_, { olderThanMs }) => {
        oracle.results.historyPruned(now() - olderThanMs);
        oracle.tables.checkKept();
      }),
    },
    dismissals: {
      ...dismissals,
      ...worksOf('dismissals'),
      reopen: requested('reopen', dismissals.reopen, (result, _, id, below) =>
        oracle.works.reopening(id, below, result),
      ),
    },
    redeliveries: {
      ...redeliveries,
      ...worksOf('redeliveries'),
      cancel: requested('cancelRedelivery', redeliveries.cancel, (result, _, id) => {
        if (result === 'cancelled') oracle.works.cancelled(id);
      }),
    },
    replays: {
      ...replays,
      create: requested('createReplay', replays.create, (result, request) =>
        oracle.replays.replayed(request, result, now()),
      ),
      get: exclusive('replay', replays.get),
      cancel: requested('cancelReplay', replays.cancel, (_, _tenant, stream, id) =>
        oracle.replays.cancelled(stream, id, now()),
      ),
      materialize: exclusive('feed', replays.materialize, (result, request) => {
        const { node } = joined;
        const ids =
          node === undefined ? [] : oracle.replays.materialized(node, request, result, now());
        if (ids.length > 0)
          simulation.note(name, `replays ${ids.map(simulation.label).join(', ')}`);
      }),
      prune: exclusive('pruneReplays', replays.prune, (_, { olderThanMs }) =>
        oracle.replays.prunedReplays(olderThanMs),
      ),
    },
    ownership: {
      join: exclusive('join', ownership.join, (node, _, leaseMs) => {
        Object.assign(joined, { node, generation: sharedStore.generation });
        oracle.leases.joined(node, leaseMs);
      }),
      heartbeat: exclusive('heartbeat', ownership.heartbeat, (result, node, leaseMs) => {
        if (result !== undefined) oracle.leases.renewed(node, leaseMs);
      }),
      claim: exclusive('claim', ownership.claim, (result, node, { claim }) => {
        oracle.leases.claimed(node, claim, result, now());
        const names = result.map(
          ({ stream, epoch }) => `${simulation.label(stream.id)} (epoch ${epoch})`,
        );
        if (names.length > 0) simulation.note(name, `owns ${names.join(', ')}`);
      }),
      begin: exclusive('begin', ownership.begin),
      owned: exclusive('owned', ownership.owned, (_, node, known) => {
        oracle.delayed(node, known);
        for (const { stream } of known) oracle.removals.read(processOf(node), stream);
      }),
      hasSeen: exclusive('hasSeen', ownership.hasSeen),
      owner: exclusive('owner', ownership.owner),
      raiseCursors: exclusive('raiseCursors', ownership.raiseCursors, (_, cursors) => {
        if (joined.node !== undefined) oracle.leases.raised(joined.node, cursors);
      }),
      release: exclusive('release', ownership.release, (_, node, cursors) => {
        oracle.delayed(node, cursors);
        oracle.leases.released(node, cursors);
        const names = cursors.map(
          ({ stream, cursor }) => `${simulation.label(stream)} at ${cursor}`,
        );
        simulation.note(name, `releases ${names.join(', ')}`);
        sharedStore.emit({ kind: 'free' });
      }),
      noteRefusal: exclusive('noteRefusal', ownership.noteRefusal),
      leave: exclusive('leave', ownership.leave, (_, node) => {
        oracle.leases.left(node);
        sharedStore.emit({ kind: 'free' });
      }),
      nodes: exclusive('nodes', ownership.nodes),
    },
    tenants: {
      ...tenants,
      leave: exclusive('leaveTenant', tenants.leave, (isFound, tenant) => {
        if (isFound) oracle.left(tenant);
      }),
      leaving: exclusive('leaving', tenants.leaving),
      removeStep: exclusive('removeStep', tenants.removeStep, ({ removed, isDone }, tenant) => {
        oracle.removed(tenant, isDone);
        const rest = isDone ? ', the last ones' : '';
        simulation.note(name, `removes ${removed} rows of tenant ${tenant}${rest}`);
      }),
    },
    upkeep: upkeepStore(simulation, exclusive),
    watch: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
