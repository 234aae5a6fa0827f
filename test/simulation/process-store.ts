import { StoreContentRefused } from '../../src/core/errors.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { Store } from '../../src/store/port/store.ts';
import type { Joined } from './process.ts';
import { unstorableMark } from './receivers.ts';
import { type InTurn, upkeepStore } from './upkeep.ts';
import type { Simulation } from './simulation.ts';

/** The store as a process reaches it: what takes effect is noted in the ledger right after it. */
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
  const inTurn: InTurn =
    (what, run, note) =>
    (...args) =>
      command(what, () =>
        sharedStore.inTurn(async () => {
          const answer = await run(...args);
          note?.(answer, ...args);
          return answer;
        }),
      );

  const { log, streams, deliveries, replays, ownership } = sharedStore.store;
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
    const outcomes = settlements.flatMap((settlement) =>
      settlement.outcomes.map(
        ({ event, result, attempt }) =>
          `${simulation.label(settlement.stream)} ${simulation.label(event.id)}/${attempt} ${result}`,
      ),
    );
    simulation.note(name, `settles ${batch}: ${outcomes.join(', ')}`);
    return settled;
  };
  type Update = Store['streams']['update'];
  const update: Update = (tenant, id, decide) => {
    let resume: 'latest' | 'held' | undefined;
    const deciding: Parameters<Update>[2] = (before, present) => {
      const decision = decide(before, present);
      resume = 'after' in decision ? decision.resume : undefined;
      return decision;
    };
    return inTurn('update', streams.update, (answer: Awaited<ReturnType<Update>>) => {
      if (!('updated' in answer)) return;
      oracle.updated(answer.updated, { resume, isHeld: answer.held !== undefined }, now());
    })(tenant, id, deciding);
  };
  return {
    ...sharedStore.store,
    log: {
      // Not in turn: appends of several callers share a commit.
      append: (...args) =>
        command('append', () => {
          const answers = log.append(...args);
          answers.then(
            (appended) => oracle.committed(appended),
            () => undefined,
          );
          return answers;
        }),
      head: inTurn('head', log.head),
      heads: inTurn('heads', log.heads),
      headMarks: inTurn('headMarks', log.headMarks),
      page: inTurn('page', log.page),
      firstSince: inTurn('firstSince', log.firstSince),
      prune: inTurn('prune', log.prune, (count, tenant, query) =>
        oracle.pruned(tenant, query, count),
      ),
    },
    streams: {
      ...streams,
      create: inTurn('create', streams.create, (answer, { types, cursor }) => {
        if ('created' in answer) oracle.created(answer.created, types, cursor);
      }),
      update,
      delete: inTurn('delete', streams.delete, (isDeleted, _, id) => {
        if (isDeleted) oracle.deleted(id);
      }),
    },
    deliveries: {
      ...deliveries,
      redeliver: inTurn('redeliver', deliveries.redeliver, (answer, _, stream, eventId) => {
        oracle.results.askedAgain(stream, eventId, answer);
        if (answer === 'accepted') oracle.results.redelivered(stream, [eventId], now());
      }),
      redeliverMany: inTurn('redeliverMany', deliveries.redeliverMany, (count, _, stream) =>
        oracle.results.redeliveredAll(stream, count, now()),
      ),
      addTest: inTurn('addTest', deliveries.addTest, (answer, _, stream, event) => {
        if (answer === 'accepted') oracle.results.tested(stream, event.id, now());
      }),
      claimDue: inTurn('claimDue', deliveries.claimDue, (answers, asks, rules) => {
        oracle.results.claimedDue(asks, now(), rules, answers);
        const rows = answers.flatMap(({ rows: taken }) => taken.map(({ event }) => event.id));
        if (rows.length > 0)
          simulation.note(name, `claims rows: ${rows.map(simulation.label).join(', ')}`);
      }),
      settle: inTurn('settle', settle),
      pruneAttempts: inTurn('pruneAttempts', deliveries.pruneAttempts, (_, { olderThanMs }) => {
        oracle.results.historyPruned(now() - olderThanMs);
        oracle.tables.checkKept();
      }),
    },
    replays: {
      create: inTurn('createReplay', replays.create, (answer, asked) =>
        oracle.replays.replayed(asked, answer, now()),
      ),
      get: inTurn('replay', replays.get),
      cancel: inTurn('cancelReplay', replays.cancel, (_, _tenant, stream, id) =>
        oracle.replays.cancelled(stream, id, now()),
      ),
      materialize: inTurn('feed', replays.materialize, (answer, ask) => {
        const { node } = joined;
        const ids = node === undefined ? [] : oracle.replays.materialized(node, ask, answer, now());
        if (ids.length > 0)
          simulation.note(name, `replays ${ids.map(simulation.label).join(', ')}`);
      }),
      prune: inTurn('pruneReplays', replays.prune, (_, { olderThanMs }) =>
        oracle.replays.prunedReplays(olderThanMs),
      ),
    },
    ownership: {
      join: inTurn('join', ownership.join, (node, _, leaseMs) => {
        Object.assign(joined, { node, generation: sharedStore.generation });
        oracle.leases.joined(node, leaseMs);
      }),
      heartbeat: inTurn('heartbeat', ownership.heartbeat, (answer, node, leaseMs) => {
        if (answer !== undefined) oracle.leases.renewed(node, leaseMs);
      }),
      claim: inTurn('claim', ownership.claim, (answer, node, { claim }) => {
        oracle.leases.claimed(node, claim, answer, now());
        const names = answer.map(
          ({ stream, epoch }) => `${simulation.label(stream.id)} (epoch ${epoch})`,
        );
        if (names.length > 0) simulation.note(name, `owns ${names.join(', ')}`);
      }),
      owned: inTurn('owned', ownership.owned),
      hasSeen: inTurn('hasSeen', ownership.hasSeen),
      raiseCursors: inTurn('raiseCursors', ownership.raiseCursors, (_, cursors) => {
        if (joined.node !== undefined) oracle.leases.raised(joined.node, cursors);
      }),
      release: inTurn('release', ownership.release, (_, node, cursors) => {
        oracle.leases.released(node, cursors);
        const names = cursors.map(
          ({ stream, cursor }) => `${simulation.label(stream)} at ${cursor}`,
        );
        simulation.note(name, `gives up ${names.join(', ')}`);
        sharedStore.emit({ kind: 'free' });
      }),
      leave: inTurn('leave', ownership.leave, (_, node) => {
        oracle.leases.left(node);
        sharedStore.emit({ kind: 'free' });
      }),
      nodes: inTurn('nodes', ownership.nodes),
    },
    upkeep: upkeepStore(simulation, inTurn),
    watch: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
