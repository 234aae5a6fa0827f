import type { KillingTest, Mutant } from './mutant.ts';

const by = (file: string, title: string): KillingTest => ({ file: `test/${file}.test.ts`, title });

/** Mutants of order by key, and of dismissals. */
export const orderMutants: readonly Mutant[] = [
  {
    name: 'a key that is compared without its type',
    file: 'core/order-key.ts',
    before: 'hashOf(JSON.stringify(value))',
    after: 'hashOf(String(value))',
    killedBy: by(
      'core/order-key',
      'two events have the same key exactly when type and value are the same',
    ),
  },
  {
    name: 'a pointer that reads members of prototypes',
    file: 'core/order-key.ts',
    before: 'isObject(value) && Object.hasOwn(value, token)',
    after: 'isObject(value)',
    killedBy: by('core/order-key', "constructor is a member like others: the event's own, or none"),
  },
  {
    name: 'a pointer whose escapes are decoded twice',
    file: 'core/field-path.ts',
    before: "token.replaceAll('~1', '/').replaceAll('~0', '~')",
    after: "token.replaceAll('~0', '~').replaceAll('~1', '/')",
    killedBy: by('core/order-key', '"/~01" has the tokens ["~1"]'),
  },
  {
    name: 'the next event of a key that begins beside the one before',
    file: 'delivery/key-order.ts',
    before: 'const isBusy = attempt !== undefined || isClaimed',
    after: 'const isBusy = isClaimed',
    killedBy: by(
      'delivery/order',
      'events with the same value are sent one after the other, others beside them',
    ),
  },
  {
    name: 'the next event of a key that does not wait for a retry',
    file: 'delivery/key-order.ts',
    before: '|| isClaimed || isHeld ||',
    after: '|| isClaimed ||',
    killedBy: by(
      'delivery/order',
      'a retry holds its key: the next event waits for its end, be it a failure',
    ),
  },
  {
    name: 'an event in memory that overtakes one that is getting its row',
    file: 'delivery/key-order.ts',
    before: 'if (recording > 0) return;',
    after: '',
    killedBy: by(
      'delivery/order',
      'an event in memory waits for the one before that is getting its row',
    ),
  },
  {
    name: 'block that lets a key go on after a failure',
    file: 'delivery/key-order.ts',
    before: "this.#blocks = delivery?.onFailure === 'block';",
    after: 'this.#blocks = false;',
    killedBy: by(
      'delivery/order',
      'block: after a failure the key waits until it was redelivered with success',
    ),
  },
  {
    name: 'block that a new owner does not know of',
    file: 'store/rules/order.ts',
    before: 'failed: blocks ? failed : 0',
    after: 'failed: 0',
    killedBy: by(
      'store/sqlite',
      'keys: an open failure counts with block only, until it was redelivered with success',
    ),
  },
  {
    name: 'a row for an event, and none for the attempt before it',
    file: 'delivery/sender.ts',
    before: 'if (before?.hasRow === false) this.#park(before);',
    after: '',
    killedBy: by(
      'delivery/order',
      'an event gets a row only with the attempt before it, so that a crash swaps none',
    ),
  },
  {
    name: 'settled events above the cursor that a new owner repeats',
    file: 'delivery/runner.ts',
    before: 'return [...new Set([...before, ...this.window.settledOffsets(cursor)])];',
    after: 'return [];',
    killedBy: by(
      'delivery/order',
      'after a crash the event under way is repeated, and none before it',
    ),
  },
  {
    name: 'half a batch without the settled events that it leads to',
    file: 'delivery/settler.ts',
    before: '!settledLater.has(offset)',
    after: 'false',
    killedBy: by(
      'delivery/order',
      'a crash amid the parts of a refused batch: what is recorded is not repeated, all else is',
    ),
  },
  {
    name: 'half a batch with the settled events of the whole',
    file: 'delivery/settler.ts',
    before: '!settledLater.has(offset)',
    after: 'true',
    killedBy: by(
      'delivery/order',
      'a crash amid the parts of a refused batch: what is recorded is not repeated, all else is',
    ),
  },
  {
    name: 'settled events of a former run that are not stored',
    file: 'store/engine/sqlite/settle.ts',
    before: 'const settledAbove = settledAboveAfter(settlement, after);',
    after:
      'const settledAbove = settlement.run === run.run ? settledAboveAfter(settlement, after) : undefined;',
    killedBy: by(
      'store/sqlite',
      'settledAbove: each settlement that has it replaces it, also one of a former run',
    ),
  },
  {
    name: 'a claim of the newest row of a key',
    file: 'store/commands/due.ts',
    before: 'order by b."offset" limit 1)',
    after: 'order by b."offset" desc limit 1)',
    killedBy: by(
      'store/sqlite',
      'claimDue: the oldest blocked row of each requested key, leased as its first attempt',
    ),
  },
  {
    name: 'a claim of the newest row of a key on PostgreSQL',
    file: 'store/commands/due.ts',
    before: 'order by b."offset" limit 1)',
    after: 'order by b."offset" desc limit 1)',
    killedBy: by(
      'store/postgres-deliveries',
      'claimDue: the oldest blocked row of each requested key, leased as its first attempt',
    ),
  },
  {
    name: 'a retry that became a failure and holds its key for ever',
    file: 'store/rules/settlement.ts',
    before: "outcome.result === 'retry' && outcome.orderKey !== undefined",
    after: 'false',
    killedBy: by(
      'store/sqlite',
      'keysChanged: a retry that became a failure at the end of its cycle, of ordered events only',
    ),
  },
  {
    name: 'a repeated batch whose keys are not read again',
    file: 'store/rules/settlement.ts',
    before: 'keysChanged: settledAbove !== undefined',
    after: 'keysChanged: false',
    killedBy: by(
      'store/sqlite',
      'keysChanged: a batch that was recorded before, of an ordered stream only',
    ),
  },
  {
    name: 'a dismissal that the owner does not learn of',
    file: 'store/commands/dismissals.ts',
    before: '    noteChanges([run]),\n',
    after: '',
    killedBy: by(
      'store/sqlite',
      'dismiss: closes failures; total falls, consecutive stays, the owner has to read the stream',
    ),
  },
  {
    name: 'a dismissal that leaves the open failures as many',
    file: 'core/health.ts',
    before: 'return { consecutive, total: total - dismissed };',
    after: 'return { consecutive, total: total - 0 * dismissed };',
    killedBy: by(
      'store/sqlite',
      'dismiss: closes failures; total falls, consecutive stays, the owner has to read the stream',
    ),
  },
  {
    name: 'a failure that is opened again and loses its history to upkeep',
    file: 'store/commands/reopening.ts',
    before: 'if (run !== undefined) yield* engine.keepEntries(run, offsets, before);',
    after: '',
    killedBy: by(
      'store/sqlite',
      'reopen: a failure keeps its history when upkeep is about to remove what it passed',
    ),
  },
  {
    name: 'young history of a failure that is opened again and leaves with its delivery',
    file: 'store/commands/reopening.ts',
    before: 'dayHorizonOf(historyMs - dayEndMs)',
    after: 'dayHorizonOf(-1e12)',
    killedBy: by(
      'store/sqlite',
      'reopen: the history of a failure stays for its time once that is delivered',
    ),
  },
  {
    name: 'a dismissed failure above the cursor that the next owner sends again',
    file: 'store/rules/dismissal.ts',
    before: 'return (offset ?? 0) <= cursor;',
    after: 'return (offset ?? 0) <= cursor + 1e9;',
    killedBy: by(
      'store/sqlite',
      'dismiss: a failure above the cursor stays until that has passed it, so that no owner sends it again',
    ),
  },
  {
    name: 'a dismissal that waits for a cursor without an end',
    file: 'store/rules/dismissal.ts',
    before: 'if (Math.abs(now - acceptedAt) >= passingMs) return -1;',
    after: '',
    killedBy: by(
      'store/sqlite',
      'dismiss: what the cursor does not pass within two seconds is skipped, what comes after it is not',
    ),
  },
  {
    name: 'a step that begins its stream anew',
    file: 'store/commands/failure-work.ts',
    before: 'position: row.position, after: read }',
    after: 'position: row.position, after: firstKey }',
    killedBy: by(
      'store/sqlite',
      'dismiss: thousands of failures are dismissed in steps, which another process continues',
    ),
  },
  {
    name: 'an event that is held back without the lease',
    file: 'delivery/prefetch/prefetch.ts',
    before: `runner.state === 'active' && lease.isHeld`,
    after: `runner.state === 'active'`,
    killedBy: by(
      'delivery/taken-events',
      'once the lease of the owner has ended, no event is taken that comes behind its key',
    ),
  },
];
