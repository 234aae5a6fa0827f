import type { Mutant } from '../mutants/mutant.ts';

/** Mutants that the simulation finds: they show that it can fail. */
export const simulationMutants: readonly Mutant[] = [
  {
    name: 'a parked row without a due time',
    file: 'store/commands/due.ts',
    before: `set state = 'parked', due_at = \${now + leaseMs}`,
    after: `set state = 'parked', due_at = \${Number.MAX_SAFE_INTEGER}`,
  },
  {
    name: 'a cursor that passes an unsettled event',
    file: 'delivery/window.ts',
    before: 'return oldest === undefined ? this.#scannedTo : oldest.offset - 1;',
    after: 'return oldest === undefined ? this.#scannedTo : oldest.offset;',
  },
  {
    name: 'a cursor written ahead of results that wait',
    file: 'delivery/runner.ts',
    before: 'const cursor = this.unsettled === 0 ? this.cursor() : this.window.durable;',
    after: 'const cursor = this.cursor();',
  },
  {
    name: 'half a batch with the cursor of the whole',
    file: 'delivery/settler.ts',
    before: 'last.cursor = runner.window.durable;',
    after: 'last.cursor = runner.cursor();',
  },
  {
    name: 'a missing epoch check',
    file: 'store/engine/sqlite/settle.ts',
    before: 'return run?.owner === node.id && run.epoch === settlement.epoch ? run : undefined;',
    after: 'return run;',
  },
  {
    name: 'a settle that may repeat',
    file: 'store/engine/sqlite/settle.ts',
    before: `if (batch <= stored.last_batch) return 'repeated';`,
    after: '',
  },
  {
    name: 'results of a former incarnation that are recorded',
    file: 'store/engine/sqlite/settle.ts',
    before: `if (stored?.incarnation !== node.incarnation) return 'lost';`,
    after: `if (stored === undefined) return 'lost';`,
  },
  {
    name: 'latest that does not raise the run',
    file: 'store/rules/enable.ts',
    before: 'run: run.run + 1,',
    after: 'run: run.run + (cursor === run.cursor ? 1 : 0),',
  },
  {
    name: 'enabling that keeps the count of consecutive failures',
    file: 'store/rules/enable.ts',
    before: 'const health = { ...run.health, consecutive: 0 };',
    after: 'const { health } = run;',
  },
  {
    name: 'reading above the cursor without skipping rows',
    file: 'delivery/runner.ts',
    before: 'if (this.#takenAbove?.has(event.offset)) return false;',
    after: '',
  },
  {
    name: 'a lookup before the lock',
    file: 'store/engine/sqlite/append.ts',
    before: 'const first = chosen ? firstOf(db, tenant, id) : undefined;',
    after: 'const first = chosen && written.length === 0 ? firstOf(db, tenant, id) : undefined;',
  },
  {
    name: 'a lease judged by the wall clock',
    file: 'delivery/lease.ts',
    before: `const isHeld = (): boolean => clock.elapsedMs() < heldUntilMs;
  const renew = async (): Promise<void> => {
    let sentMs = 0;
    const heartbeat = await storeRetry.run(() => {
      // One that failed is not repeated: this never settles.
      if (closed) return new Promise<never>(() => undefined);
      sentMs = clock.elapsedMs();`,
    after: `const isHeld = (): boolean => clock.now() < heldUntilMs;
  const renew = async (): Promise<void> => {
    let sentMs = 0;
    const heartbeat = await storeRetry.run(() => {
      // One that failed is not repeated: this never settles.
      if (closed) return new Promise<never>(() => undefined);
      sentMs = clock.now();`,
  },
  {
    name: 'a lease counted from its answer',
    file: 'delivery/lease.ts',
    before: 'heldUntilMs = sentMs + settings.leaseStopMs;',
    after: 'heldUntilMs = clock.elapsedMs() + settings.leaseStopMs;',
  },
  {
    name: 'attempts that begin without a lease',
    file: 'delivery/incarnation.ts',
    before: 'return this.#lease.isHeld && this.#settler.unsettled < settleMax + concurrency;',
    after: 'return this.#settler.unsettled < settleMax + concurrency;',
  },
  {
    name: 'a lease regained without refreshing the streams',
    file: 'delivery/incarnation.ts',
    before: 'this.#ownership.refreshAll();',
    after: '',
  },
  {
    name: 'a claim from before the lease ended that is used',
    file: 'delivery/ownership.ts',
    before: 'this.#announced.has(key) || this.#deps.lease.term !== term)',
    after: 'this.#announced.has(key))',
  },
  {
    name: 'a claim that cannot be repeated',
    file: 'store/commands/claims.ts',
    before: 'return yield* ownedStreams(deps, { ...ask, refs: before });',
    after: 'return yield* ownedStreams(deps, { ...ask, refs: before.slice(0, 0) });',
  },
  {
    name: 'a change that is acknowledged before the owner has seen it',
    file: 'store/commands/ownership.ts',
    before: 'return unseen === undefined;',
    after: 'return true;',
  },
  {
    name: 'a claim that does not raise the epoch',
    file: 'store/commands/claims.ts',
    before: 'epoch = epoch + 1, claim',
    after: 'epoch = max(epoch, 1), claim',
  },
  {
    name: 'a new owner that waits for the leases of parked rows',
    file: 'store/commands/claims.ts',
    before: `where state = 'parked' and due_at is not null and`,
    after: `where state = 'parked' and due_at is not null and false and`,
  },
  {
    name: 'streams taken from a node whose lease lasts',
    file: 'store/commands/nodes.ts',
    before: "sqlite: 'lease_until > 0 and lease_until <= leat_elapsed()',",
    after: "sqlite: 'lease_until > 0 and lease_until <= leat_elapsed() + 200',",
  },
  {
    name: 'disabling that leaves the waiting retries',
    file: 'store/engine/sqlite/outcome.ts',
    before: `state.health = runCommand(db, failWaiting(present, 'retrying', now));`,
    after: '',
  },
  {
    name: 'disabling one failure too late',
    file: 'core/health.ts',
    before: 'if (consecutive >= limits.consecutive)',
    after: 'if (consecutive > limits.consecutive)',
  },
  {
    name: 'a failure that is counted twice',
    file: 'store/rules/settlement.ts',
    before: 'if (isOver) {',
    after: 'if (isOver && outcome.attempt < 0) {',
  },
  {
    name: 'a disabled stream that continues until it is refreshed',
    file: 'delivery/ownership.ts',
    before: `runner.state = 'stale';`,
    after: '',
  },
  {
    name: 'rows of a disabled stream that are sent',
    file: 'delivery/prefetch/due-claims.ts',
    before: `if (!runner.enabled && row.kind !== 'redelivery') return this.#fail(runner, row);`,
    after: '',
    killedBy: {
      file: 'test/delivery/dispatcher.test.ts',
      title: 'a retry that was claimed before its stream was disabled is not sent',
    },
  },
  {
    name: 'pruning by age alone',
    file: 'store/engine/sqlite/log.ts',
    before: 'and offset <= ${passed}',
    after: '',
  },
  {
    name: 'pruning that forgets the bodies of open rows',
    file: 'store/engine/sqlite/log.ts',
    before: 'where d.tenant = e.tenant and d.event_id = e.id and d.body is null)',
    after: 'where d.tenant = e.tenant and d.event_id = e.id and d.body is not null)',
  },
  {
    name: 'subscriptions that change for events of the past',
    file: 'core/subscription.ts',
    before:
      'const index = subscriptions.findLastIndex((subscription) => subscription.after < offset);',
    after: 'const index = subscriptions.length - 1;',
  },
  {
    name: 'a cursor that passes a change its node has not seen',
    file: 'store/engine/sqlite/runs.ts',
    before: 'return firstChangeFrom(subscriptions, run.cursor) ?? Infinity;',
    after: 'return subscriptions.length > 0 ? Infinity : 0;',
  },
  {
    name: 'a change that applies to earlier events whose hints are late',
    file: 'delivery/prefetch/prefetch.ts',
    before: 'if (changedAt > tail.head) this.skipped(tail, changedAt);',
    after: '',
  },
  {
    name: 'hints that are assumed never to be lost',
    file: 'delivery/prefetch/poll.ts',
    before: 'await heads.checkChanged();',
    after: '',
  },
  {
    name: 'a page that is read by the former subscriptions',
    file: 'delivery/prefetch/page-reader.ts',
    before: `if (runner.state === 'active') await read(runner);
        else runner.reading = false;`,
    after: 'await read(runner);',
  },
  {
    name: 'retries that wait without a bound',
    file: 'delivery/runner.ts',
    before: 'this.rows + this.rowsPending < disable.consecutive',
    after: 'this.rows >= 0',
  },
  {
    name: 'events that are sent after failures that reach a limit, until those are recorded',
    file: 'delivery/runner.ts',
    before: 'if (this.counters.reachLimit(disable)) return false;',
    after: '',
  },
  {
    name: 'events behind their keys that leave the log after failures that reach a limit',
    file: 'delivery/runner.ts',
    before: 'if (this.counters.reachLimit(disable)) return undefined;',
    after: '',
    killedBy: {
      file: 'test/delivery/failure-limits.test.ts',
      title: 'an event whose key is busy stays in the log after the limit',
    },
  },
  {
    name: 'a limit that is reached by failures of the last batch only',
    file: 'delivery/failure-counters.ts',
    before: 'this.#health = stored;\n    this.#counted = 0;',
    after: 'this.#health = { ...stored, consecutive: 0 };\n    this.#counted = 0;',
  },
  {
    name: 'a success in progress that undoes a limit before it',
    file: 'delivery/failure-counters.ts',
    before: "if (outcome?.result === 'delivered')",
    after:
      "if (outcome?.result === 'delivered') this.#isLimitReached = false;\n      if (outcome?.result === 'delivered')",
    killedBy: {
      file: 'test/delivery/failure-counters.test.ts',
      title: 'a success after the limit does not undo it',
    },
  },
  {
    name: 'failures that are left after a batch and reach no limit until one more ends',
    file: 'delivery/failure-counters.ts',
    before: 'this.#pending.splice(0, outcomes.length);',
    after: 'this.#pending.splice(0);',
    killedBy: {
      file: 'test/delivery/failure-limits.test.ts',
      title: 'failures after a redelivery that succeeded count while only that one is recorded',
    },
  },
  {
    name: 'a tail that keeps every event',
    file: 'log/tail.ts',
    before: 'while (this.#isFull()) this.#dropOldest();',
    after: '',
  },
  {
    name: 'queues that are filled without a bound',
    file: 'delivery/prefetch/prefetch.ts',
    before: 'runner.queue.length < this.#queueMax(runner) && this.#room(runner) > 0) {',
    after: 'runner.queue.length >= 0) {',
  },
  {
    name: 'attempts that go on while no result can be recorded',
    file: 'delivery/incarnation.ts',
    before: 'return this.#lease.isHeld && this.#settler.unsettled < settleMax + concurrency;',
    after: 'return this.#lease.isHeld && settleMax + concurrency > 0;',
  },
  {
    name: 'a window without a bound',
    file: 'delivery/runner.ts',
    before: 'return this.window.settledAbove <= parkAfterEvents + gathering;',
    after: 'return gathering > 0;',
  },
  {
    name: 'a secret in an error message',
    file: 'delivery/outcome.ts',
    before: 'const secrets = [...(template?.secrets ?? []), ...(request?.tokens ?? [])];',
    after: 'const secrets: string[] = [];',
  },
  {
    name: 'a destination that is used after it changed',
    file: 'delivery/runner.ts',
    before: 'if (owned.stream.version !== this.stream.version) this.template = undefined;',
    after: '',
  },
  {
    name: 'a replay that reads ahead of the cursor',
    file: 'store/rules/replay.ts',
    before: 'const readable = Math.min(to, state.cursor);',
    after: 'const readable = to;',
  },
  {
    name: 'a replay that is over while deliveries of it wait',
    file: 'store/rules/replay.ts',
    before: `if (state.waiting > 0) return { step: 'wait' };`,
    after: '',
  },
  {
    name: 'a retry that is due far in the future',
    file: 'core/retry.ts',
    before: 'const nextDelayMs = rules.retryDelaysMs[attempt - 1];',
    after: `const inTimeMs = rules.retryDelaysMs[attempt - 1];
  const nextDelayMs = inTimeMs === undefined ? undefined : inTimeMs + 3_600_000;`,
  },
  {
    name: 'a retry that is found by polling only',
    file: 'delivery/prefetch/due-timer.ts',
    before: `noted.add(runner);
      plan(runner.nextDueMs);`,
    after: 'noted.add(runner);',
  },
  {
    name: 'events that are found by polling only',
    file: 'delivery/incarnation.ts',
    before: 'this.#prefetch.appended(tenant, tail, hint.events);',
    after: '',
  },
  {
    name: 'a test event that is found by polling only',
    file: 'delivery/incarnation.ts',
    before: `if (hint.kind === 'stream') ownership.changed(hint);`,
    after: '',
  },
  {
    name: 'streams of a dead node that are not taken over',
    file: 'delivery/prefetch/poll.ts',
    before: 'ownership.claim();',
    after: '',
  },
  {
    name: 'a store that was replaced and is taken for one that is away',
    file: 'delivery/store-retry.ts',
    before: 'if (error instanceof StoreReplaced) {',
    after: 'if (error instanceof StoreReplaced && closed) {',
  },
  {
    name: 'former results that are recorded after the store was replaced',
    file: '../test/simulation/process.ts',
    before: `'append head page firstSince settle claimDue feed '`,
    after: `'append head page firstSince claimDue feed '`,
  },
  {
    name: 'a store that went back and does not report it',
    file: '../test/simulation/process.ts',
    before: 'if (guardedCommands.has(what) && sentTo !== sharedStore.generation) {',
    after: 'if (guardedCommands.size === 0) {',
  },
  {
    name: 'settlements that are never synced',
    file: 'store/engine/sqlite/wal-sync.ts',
    before: 'else this.#plan();',
    after: '',
  },
  {
    name: 'an append that is acknowledged before it is synced',
    file: 'store/engine/sqlite/append.ts',
    before: 'if (walSync === undefined) done();',
    after: 'if (walSync !== null) done();',
  },
  {
    name: 'a replay up to the head of the log before it went back',
    file: 'store/rules/replay.ts',
    before: 'const to = Math.min(requested.to, head);',
    after: 'const { to } = requested;',
  },
  {
    name: 'the timer of due rows that goes by the wall clock',
    file: 'delivery/prefetch/due-timer.ts',
    before: 'const { clock, scheduler } = deps;',
    after: `const { scheduler } = deps;
  const clock = { ...deps.clock, elapsedMs: () => deps.clock.now() };`,
  },
  {
    name: 'rows from while the clock was ahead that wait until then',
    file: 'store/commands/due.ts',
    before: 'const all = [others, replayed, late].flatMap(',
    after: 'const all = [others, replayed].flatMap(',
  },
  {
    name: 'instants that are stamped by the wall clock of a process',
    file: 'store/engine/sqlite/store.ts',
    before: 'const time = deps.time ?? createGuardedTime(clock);',
    after: 'const time = { ...createGuardedTime(clock), now: () => clock.now() };',
  },
  {
    name: 'kept bodies that are removed while deliveries need them',
    file: 'store/commands/kept.ts',
    before: 'rows.filter(({ needed }) => needed === null);',
    after: 'rows;',
  },
  {
    name: 'history of open failures that leaves with its day',
    file: 'store/engine/sqlite/history-pruner.ts',
    before:
      'for (const { key, event_key: eventKey } of page) keepAttempts(db, { key }, eventKey, before);',
    after: '',
  },
  {
    name: 'a stream that is disabled at half of the bound on lag',
    file: 'upkeep/lag.ts',
    before: 'if (lagMs >= maxMs)',
    after: 'if (lagMs >= maxMs / 2)',
  },
  {
    name: 'a key that is taken as free while its event is under way',
    file: 'delivery/key-order.ts',
    before: 'const isBusy = attempt !== undefined || isClaimed',
    after: 'const isBusy = isClaimed',
  },
  {
    name: 'a dismissed failure that blocks its key for ever',
    file: 'delivery/key-order.ts',
    before: 'state.failures = failed;',
    after: 'state.failures = Math.max(state.failures, failed);',
  },
  {
    name: 'a receiver that is down and is tried once only',
    file: 'delivery/outages.ts',
    before: `this.#plan(runner);
      if (outage.state === 'releasing')`,
    after: `if (outage.state === 'releasing')`,
  },
  {
    name: 'fresh events that are taken while their receiver is down',
    file: 'delivery/runner.ts',
    before: 'this.outage?.takesFresh ?? this.rows',
    after: '(this.outage === undefined ? undefined : true) ?? this.rows',
  },
  {
    name: 'reserved slots that are filled although fresh events took them',
    file: 'delivery/prefetch/due-claims.ts',
    before: 'for (const runner of claiming) this.#giveBack(runner);',
    after: '',
  },
  {
    name: 'a selection that is forgotten once the cursor has passed it',
    file: 'store/commands/streams.ts',
    before: 'yield* keepPast(tenant, id, passedSelections(wanted.subscriptions, subscriptions));',
    after: '',
  },
  {
    name: 'a success above the cursor that is reported as waiting',
    file: 'store/commands/event-deliveries.ts',
    before: 'return !isPlain || dismissed.has(id);',
    after: 'return dismissed.has(id);',
  },
  {
    name: 'a skipped event that is reported as delivered',
    file: 'store/commands/event-deliveries.ts',
    before: 'isSkipped: traces.skipped.has(id),',
    after: 'isSkipped: false,',
  },
  {
    name: 'failures that are closed before their turn and are skipped by nobody',
    file: 'store/rules/failure-work.ts',
    before: 'skipped: skipped + (isEnd ? left : 0),',
    after: 'skipped,',
  },
  {
    name: 'a redelivery that takes failures of later',
    file: 'store/commands/failure-counts.ts',
    before: 'Math.min(selection.failedTo ?? present, present);',
    after: 'Math.min(selection.failedTo ?? present, present) + 60_000;',
  },
  {
    name: 'a cancelled redelivery whose waiting cycles begin all the same',
    file: 'store/commands/redeliveries.ts',
    before: "state === 'retrying' && attempt === 1,",
    after: "state === 'retrying' && attempt === 0,",
  },
  {
    name: 'failures that are opened again and counted by nobody',
    file: 'store/commands/reopening.ts',
    before: 'total: health.total + open.length } }]),',
    after: 'total: health.total } }]),',
  },
  {
    name: 'a deleted stream whose failures are left in the progress of redeliveries',
    file: 'store/commands/failure-work.ts',
    before: 'set skipped = total - (${ended}), unread = 0',
    after: 'set unread = 0',
  },
  {
    name: 'a redelivery that no process continues',
    file: 'upkeep/upkeep.ts',
    before: 'for (const { tenant, id } of unfinished) await requests.step(tenant, id, historyMs);',
    after: '',
  },
  {
    name: 'a loop over waiting streams that a lost one keeps going',
    file: 'delivery/prefetch/filtered-pages.ts',
    before:
      'while (!this.#isClosed && this.#underWay < pagesMax && this.#waiting.offerNext(this.#offer));',
    after: `while (!this.#isClosed && this.#underWay < pagesMax && this.#waiting.length > 0)
      this.#waiting.offerNext((runner) => (runner.state === 'active' ? this.#offer(runner) : 'refused'));`,
  },
  {
    name: 'a removal of a tenant that leaves its past selections',
    file: 'store/commands/tenant-removal.ts',
    before: `  past_selections: 'stream, after_offset',\n`,
    after: '',
  },
];
