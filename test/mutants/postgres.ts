import type { KillingTest, Mutant } from './mutant.ts';

const contract = (title: string): KillingTest => ({ file: 'test/store/postgres.test.ts', title });
const deliveries = (title: string): KillingTest => ({
  file: 'test/store/postgres-deliveries.test.ts',
  title,
});
const shared = (title: string): KillingTest => ({
  file: 'test/store/postgres/shared.test.ts',
  title,
});

const heldLocks = (title: string): KillingTest => ({
  file: 'test/store/postgres/held-locks.test.ts',
  title,
});

/** Mutants of the PostgreSQL store. */
export const postgresMutants: readonly Mutant[] = [
  {
    name: 'PostgreSQL: a claim that holds the heartbeat of its node',
    file: 'store/commands/claims.ts',
    before: 'and incarnation = ${node.incarnation} ${forKeyShare}`;',
    after: 'and incarnation = ${node.incarnation} for no key update`;',
    killedBy: heldLocks('a claim holds neither the heartbeat nor a settlement of its node'),
  },
  {
    name: 'PostgreSQL: a node that is freed during its claim',
    file: 'store/commands/nodes.ts',
    before: "postgres: 'for update skip locked' });",
    after: "postgres: 'for no key update skip locked' });",
    killedBy: heldLocks(
      'a claim whose lease has ended meanwhile keeps the streams that it takes, until they are freed',
    ),
  },
  {
    name: 'PostgreSQL: a heartbeat that fails after it has renewed the lease',
    file: 'store/commands/ownership.ts',
    before: 'if (!(error instanceof StoreUnavailable)) report(error);',
    after: 'if (error instanceof StoreUnavailable) throw error;',
    killedBy: heldLocks(
      'a heartbeat of one of two nodes renews the lease while the tables of streams are locked',
    ),
  },
  {
    name: 'PostgreSQL: a list whose statements have time one after the other',
    file: 'store/engine/postgres/bounds.ts',
    before: 'ends.run(ends.getStore() ?? clock',
    after: 'ends.run(clock',
    killedBy: {
      file: 'test/store/postgres/bounds.test.ts',
      title: 'all statements of a command end within the sum of its bounds',
    },
  },
  {
    name: 'PostgreSQL: a settlement without a check of the epoch',
    file: 'store/engine/postgres/settle.ts',
    before: 'return run?.owner === node.id && run.epoch === settlement.epoch ? run : undefined;',
    after: 'return run?.owner === node.id ? run : undefined;',
    killedBy: contract(
      'a stream that its node released and claimed again records no results from before',
    ),
  },
  {
    name: 'PostgreSQL: a batch of results that is recorded again when it is repeated',
    file: 'store/engine/postgres/settle.ts',
    before: 'if (!begun) {',
    after: "if (!begun && node.id === '') {",
    killedBy: contract('a batch that is repeated changes nothing'),
  },
  {
    name: 'PostgreSQL: results of a former incarnation of a node',
    file: 'store/engine/postgres/settle.ts',
    before: '${node.id}, ${node.incarnation}, ${batch},',
    after: '${node.id}, (select incarnation from nodes where id = ${node.id}), ${batch},',
    killedBy: contract('a batch of a former incarnation uses up no number of the present one'),
  },
  {
    name: 'PostgreSQL: a claim that does not lock the streams it takes',
    file: 'store/commands/claims.ts',
    before: "postgres: 'for no key update of r skip locked' });",
    after: "postgres: '' });",
    killedBy: shared('a stream that another process is claiming is skipped at once'),
  },
  {
    name: 'PostgreSQL: a cursor that passes a change its owner has not seen',
    file: 'store/commands/runs.ts',
    before: 'const cursor = Math.min(request.cursor, limits.get(key) ?? Infinity);',
    after: 'const { cursor } = request;',
    killedBy: contract('unseen change: raiseCursors raises the cursor only up to the change'),
  },
  {
    name: 'PostgreSQL: a cursor raised by a former owner',
    file: 'store/commands/runs.ts',
    before: 'run?.epoch === request.epoch && run.run === request.run && run.owner !== null;',
    after: 'run?.run === request.run && run.owner !== null;',
    killedBy: contract('raiseCursors: a former owner or a former run raises nothing'),
  },
  {
    name: 'PostgreSQL: a lease judged by the clock of events',
    file: 'store/commands/nodes.ts',
    before: "postgres: 'not freed and lease_until <= clock_timestamp()',",
    after: "postgres: 'not freed and lease_until <= to_timestamp(leat_now() / 1000.0)',",
    killedBy: contract(
      'heartbeat: no other node takes the streams while the lease lasts, any node does afterwards',
    ),
  },
  {
    name: 'PostgreSQL: streams given up that another node owns by now',
    file: 'store/commands/ownership.ts',
    before: 'where owner = ${node.id} and (tenant, stream, epoch) in ${amongClaims(last)}`;',
    after: 'where (tenant, stream) in ${amongStreams(last)}`;',
    killedBy: contract('release: leaves a stream that another node owns by now'),
  },
  {
    name: 'PostgreSQL: a cancelled replay whose deliveries stay',
    file: 'store/commands/replays.ts',
    before: `where tenant = \${tenant} and stream = \${stream} and kind = 'replay' and due_at is not null\`,
    noteChanges`,
    after: `where tenant = \${tenant} and stream = \${stream} and kind = 'replay' and due_at is null\`,
    noteChanges`,
    killedBy: deliveries(
      'cancel: drops waiting deliveries, and results of attempts in progress are history',
    ),
  },
  {
    name: 'PostgreSQL: an append without the lock of its tenant',
    file: 'store/engine/postgres/migrations/0049_baseline.sql',
    before: 'from tenants t where t.id = the_tenant for no key update;',
    after: 'from tenants t where t.id = the_tenant;',
    killedBy: shared('an append waits for one that has an offset and has not committed'),
  },
  {
    name: 'PostgreSQL: appended events without a notification of other nodes',
    file: 'store/engine/postgres/listen-notify.ts',
    before: `if (word.kind === 'head' && state.isAlone) return;`,
    after: `if (word.kind === 'head') return;`,
    killedBy: shared(
      'hints reach other processes but not the sender, and an interruption is reported',
    ),
  },
  {
    name: 'PostgreSQL: a day of events that is removed while a tenant needs it',
    file: 'store/engine/postgres/event-days.ts',
    before: 'if (!(await isNeeded(db, day))) days.push(day);',
    after: 'days.push(day);',
    killedBy: shared(
      'whole days are dropped once every tenant has pruned them, and bodies are kept',
    ),
  },
  {
    name: 'PostgreSQL: history that leaves a day too early',
    file: 'store/engine/postgres/history-pruner.ts',
    before: 'const before = dayOf(await run(db, horizonOf(olderThanMs)));',
    after: 'const before = dayOf(await run(db, horizonOf(olderThanMs))) + 1;',
    killedBy: deliveries('pruneAttempts: keeps attempts until their whole day is old'),
  },
  {
    name: 'PostgreSQL: a day with late history that is removed unread',
    file: 'store/engine/postgres/history-pruner.ts',
    before: 'return filled.every(({ day }) => walk.days.includes(day)) ? walk : undefined;',
    after: 'return filled.length >= 0 ? walk : undefined;',
    killedBy: {
      file: 'test/store/postgres/upkeep.test.ts',
      title: 'upkeep: a year of days without history costs no statement for each of them',
    },
  },
  {
    name: 'PostgreSQL: kept bodies that are released while a delivery needs them',
    file: 'store/commands/kept.ts',
    before: 'const over = rows.filter(({ needed }) => needed === null);',
    after: 'const over = rows.filter(({ needed }) => needed !== null);',
    killedBy: deliveries(
      'pruneAttempts: an event that many streams need is kept until the last of them has it',
    ),
  },
  {
    name: 'PostgreSQL: a change that is not reported to its owner',
    file: 'store/commands/runs.ts',
    before: 'update runs set unseen = ${true}',
    after: 'update runs set unseen = ${false}',
    killedBy: contract('heartbeat: returns changed streams until the node has read them again'),
  },
  {
    name: 'PostgreSQL: claimed rows that stay due',
    file: 'store/commands/due.ts',
    before: `set state = 'parked', due_at = \${now + leaseMs}`,
    after: `set state = 'parked', due_at = coalesce(due_at, \${now + leaseMs})`,
    killedBy: deliveries(
      'claimDue: a claimed row is due again when its lease has ended, with the same attempt',
    ),
  },
  {
    name: 'PostgreSQL: runs that are read without a lock',
    file: 'store/commands/runs.ts',
    before: 'order by tenant, stream for no key update`),',
    after: 'order by tenant, stream`),',
    killedBy: deliveries(
      'redeliver: accepts exactly one of several concurrent requests for one failure',
    ),
  },
  {
    name: 'PostgreSQL: a stream that is pruned past its cursor',
    file: 'store/engine/postgres/log.ts',
    before: 'const upTo = Math.min(row.head, row.cursor ?? Infinity, oldest + take);',
    after: 'const upTo = Math.min(row.head, oldest + take);',
    killedBy: contract('prune: keeps an event that an enabled stream has not passed'),
  },
  {
    name: 'PostgreSQL: a repeated claim that takes more streams',
    file: 'store/commands/claims.ts',
    before: "if (!(yield* engine.beginStep(node, 'claim', request.claim))) {",
    after: "if (!(yield* engine.beginStep(node, 'claim', request.claim)) && node.id === '') {",
    killedBy: contract('claim: a repeat takes nothing new and returns what the first took'),
  },
  {
    name: 'PostgreSQL: statistics that count nothing',
    file: 'store/engine/postgres/settle.ts',
    before: 'addStats(tx, stats, now),',
    after: '',
    killedBy: contract(
      'the hour of the settling counts successes and exhausted cycles, not retries',
    ),
  },
  {
    name: 'PostgreSQL: settlements that a crash of the server loses',
    file: 'store/engine/postgres/settle.ts',
    before: `db.transact('durable', async (tx) => {`,
    after: `db.transact('relaxed', async (tx) => {`,
    killedBy: {
      file: 'test/store/postgres/crash.test.ts',
      title: 'PostgreSQL: settlements survive a crash of the server',
    },
  },
];
