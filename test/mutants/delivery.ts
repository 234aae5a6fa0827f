import type { KillingTest, Mutant } from './mutant.ts';

const append = (title: string): KillingTest => ({
  file: 'test/store/sqlite/append.test.ts',
  title,
});

const outages = (title: string): KillingTest => ({
  file: 'test/delivery/outages.test.ts',
  title,
});

/** Mutants of the rules of delivery, of the queues of a node, and of what SQLite records. */
export const deliveryMutants: readonly Mutant[] = [
  {
    name: 'a lease that ended while the clock stood still and is taken for one that lasted',
    file: 'delivery/lease.ts',
    before: 'const wasHeld = isHeld() && !heartbeat.lapsed;',
    after: 'const wasHeld = isHeld();',
    killedBy: {
      file: 'test/delivery/lease.test.ts',
      title:
        'a suspended node learns from its next heartbeat that its lease ended, and leaves the streams that were taken',
    },
  },
  {
    name: 'subscriptions that apply to events which their owner took before it read them',
    file: 'store/commands/taken-events.ts',
    before: 'if (version === taken.version) return false;',
    after: 'if (version >= taken.version) return false;',
    killedBy: {
      file: 'test/store/sqlite.test.ts',
      title: 'owned: the change applies after the events that the owner has taken',
    },
  },
  {
    name: 'a former owner that moves a change of subscriptions',
    file: 'store/commands/taken-events.ts',
    before: 'if (run?.epoch !== taken.epoch || row === undefined) return taken.version;',
    after: 'if (run === undefined || row === undefined) return taken.version;',
    killedBy: {
      file: 'test/store/sqlite.test.ts',
      title: 'owned: a former owner moves no change',
    },
  },
  {
    name: 'a stream that is released without what its owner has taken',
    file: 'store/commands/ownership.ts',
    before: 'if (taken === undefined || wasRead(raise)) raises.push(raise);',
    after: 'if (taken !== undefined || wasRead(raise)) raises.push(raise);',
    killedBy: {
      file: 'test/store/sqlite.test.ts',
      title: 'release: the next owner goes on after the events that this one has taken',
    },
  },
  {
    name: 'a lack of file descriptors that is charged to the receiver',
    file: 'delivery/http/exchange.ts',
    before: 'this.#end(shortageOf(first) ?? classifyTransportError(first, phase), false);',
    after: 'this.#end(classifyTransportError(first, phase), false);',
    killedBy: {
      file: 'test/delivery/http/egress.test.ts',
      title: 'a name server of this machine that cannot be reached is no error of the receiver',
    },
  },
  {
    name: 'a lack of ports for an IPv6 address that is charged to the receiver',
    file: 'delivery/http/transport-error.ts',
    before: 'isIPv6(addressOf(error)) && !hasFamily();',
    after: 'isIPv6(addressOf(error));',
    killedBy: {
      file: 'test/delivery/http/shortages.test.ts',
      title: 'an IPv6 address without a free port is one, on a machine without IPv6 it is none',
    },
  },
  {
    name: 'a name that fails for name servers that were away until its last query',
    file: 'delivery/http/resolver.ts',
    before: 'if (tries > 1 ||',
    after: 'if (tries > 0 ||',
    killedBy: {
      file: 'test/delivery/http/resolver.test.ts',
      title: 'a name server that comes back is asked again about a name for which it was away',
    },
  },
  {
    name: 'a row of a late claim that nobody sends at the end of its lease',
    file: 'delivery/prefetch/due-claims.ts',
    before: 'if (!this.#isClosed) dueTimer.note(runner, leftMs);',
    after: 'if (leftMs < 0) dueTimer.note(runner, leftMs);',
    killedBy: {
      file: 'test/delivery/prefetch/due-claims.test.ts',
      title: 'due rows whose claim takes long are sent at the end of their lease, without a poll',
    },
  },
  {
    name: 'an event of a key that is sent before one for which the node was short',
    file: 'delivery/key-order.ts',
    before: 'else if (outcome.hasEnded) this.#retries(key);',
    after: `else if (outcome.hasEnded) this.#ended(key, 'delivered');`,
    killedBy: {
      file: 'test/delivery/shortages.test.ts',
      title:
        'a stream in order: the next event of a key waits for one that the node could not send',
    },
  },
  {
    name: 'a stream that begins at the head with any start_from',
    file: 'api/streams.ts',
    before: `if (text === undefined || text === 'now') return undefined;`,
    after: `if (text !== undefined || text !== 'now') return undefined;`,
    killedBy: {
      file: 'test/api/replays.test.ts',
      title: 'start_from accepts now, an offset or a date',
    },
  },
  {
    name: 'a start in the log that the store ignores',
    file: 'store/commands/streams.ts',
    before: 'sqlite: piece`min(head, ifnull(${cursor}, head))`,',
    after: 'sqlite: piece`min(head, ifnull(${undefined}, head))`,',
  },
  {
    name: 'retries that do not wait',
    file: 'core/retry.ts',
    before: 'Math.max(nextDelayMs, requestedMs);',
    after: 'requestedMs;',
  },
  {
    name: 'retries that wait as long as the first',
    file: 'core/retry.ts',
    before: 'const nextDelayMs = rules.retryDelaysMs[attempt - 1];',
    after: `const nextDelayMs =
    rules.retryDelaysMs[attempt - 1] === undefined ? undefined : rules.retryDelaysMs[0];`,
  },
  {
    name: 'a Retry-After that shortens the wait',
    file: 'core/retry.ts',
    before: 'Math.max(nextDelayMs, requestedMs);',
    after: 'requestedMs || nextDelayMs;',
    killedBy: {
      file: 'test/core/retry.test.ts',
      title: 'Retry-After lengthens a wait and never shortens it',
    },
  },
  {
    name: 'one attempt more than the schedule has',
    file: 'core/retry.ts',
    before: 'const nextDelayMs = rules.retryDelaysMs[attempt - 1];',
    after: `const nextDelayMs =
    attempt > rules.retryDelaysMs.length + 1 ? undefined : (rules.retryDelaysMs[attempt - 1] ?? 0);`,
  },
  {
    name: 'one attempt less than the schedule has',
    file: 'core/retry.ts',
    before: 'const nextDelayMs = rules.retryDelaysMs[attempt - 1];',
    after: `const nextDelayMs =
    attempt < rules.retryDelaysMs.length ? rules.retryDelaysMs[attempt - 1] : undefined;`,
  },
  {
    name: 'no quarter of the slots for fresh events',
    file: 'delivery/slots.ts',
    before: 'dueInFlight < slots - quarterOf(slots)',
    after: 'dueInFlight < slots',
    killedBy: {
      file: 'test/delivery/slots.test.ts',
      title: 'each kind of work gets at least a quarter of the slots while both wait',
    },
  },
  {
    name: 'statistics that count nothing',
    file: 'store/engine/sqlite/settle.ts',
    before: 'addStats(db, run, state, rules.now);',
    after: '',
  },
  {
    name: 'statistics that count twice',
    file: 'store/engine/sqlite/settle.ts',
    before: 'delivered = delivered + excluded.delivered, failed = failed + excluded.failed',
    after: 'delivered = delivered + 2 * excluded.delivered, failed = failed + excluded.failed',
  },
  {
    name: 'a history without successes',
    file: 'store/engine/sqlite/outcome.ts',
    before: 'if (history !== undefined) addAttempt',
    after: `if (history !== undefined && history.outcome !== 'delivered') addAttempt`,
  },
  {
    name: 'a delivered event that is reported as unknown',
    file: 'store/commands/redelivery.ts',
    before: `return (yield* endOf(run, eventId)) ?? 'unknown';`,
    after: `return 'unknown';`,
  },
  {
    name: 'held that resumes at the head',
    file: 'store/commands/streams.ts',
    before: `if (resume !== 'held') {`,
    after: `if (resume !== undefined || resume !== 'held') {`,
  },
  {
    name: 'a stream that keeps its turn while others wait',
    file: 'delivery/fair-queue.ts',
    before: 'const item = queue.items.shift();',
    after: `for (let left = queue.items.length; left > 1; left -= 1) {
        queue.items.push(queue.items.shift() as T);
      }
      const item = queue.items.shift();`,
    killedBy: {
      file: 'test/delivery/fair-queue.test.ts',
      title: 'offers go round robin over tenants, then over the items of each',
    },
  },
  {
    name: 'a tenant that keeps its turn while others wait',
    file: 'delivery/fair-queue.ts',
    before: `if (result === 'taken') return result;
      if (result === 'dropped') continue;`,
    after: `if (result !== 'refused') continue;`,
    killedBy: {
      file: 'test/delivery/fair-queue.test.ts',
      title: 'offers go round robin over tenants, then over the items of each',
    },
  },
  {
    name: 'a last slot that is never used',
    file: 'delivery/shares.ts',
    before: 'return this.slots >= slots || this.bytes >= bytes;',
    after: 'return this.slots >= slots - 1 || this.bytes >= bytes;',
    killedBy: {
      file: 'test/delivery/fairness.test.ts',
      title: 'quick streams may have every slot of the node, and count as slow once they hang',
    },
  },
  {
    name: 'a tenant that may take every slot while others have streams',
    file: 'delivery/shares.ts',
    before: 'return isShared ? Math.floor((3 * left - own) / 4) : left;',
    after: 'return left;',
  },
  {
    name: 'no quarter of the slots for quick streams',
    file: 'delivery/shares.ts',
    before: 'const unprovenPart = { probe: 7 / 8, slow: 3 / 4 } as const;',
    after: 'const unprovenPart = { probe: 1, slow: 1 } as const;',
    killedBy: {
      file: 'test/delivery/shares.test.ts',
      title: 'slow streams leave a quarter to quick ones',
    },
  },
  {
    name: 'a slow receiver that keeps all slots of its stream',
    file: 'delivery/pace.ts',
    before: 'const share = Math.min(1, parkAfterMs / this.#latencyMs);',
    after: 'const share = 1;',
    killedBy: {
      file: 'test/delivery/pace.test.ts',
      title: 'a receiver that responds after 9.5 s has few slots although it never fails',
    },
  },
  {
    name: 'a stream that does not pause when its receiver refuses every connection',
    file: 'delivery/sender.ts',
    before: `if (response === 'unanswered' && runner.pace.mustBackOff(settings)) backoffs.begin(runner);`,
    after: '',
    killedBy: {
      file: 'test/delivery/backoffs.test.ts',
      title:
        'a stream begins few attempts a second, however many events wait: its receiver refuses connections',
    },
  },
  {
    name: 'a pause after which a stream waits for something else to happen',
    file: 'delivery/backoffs.ts',
    before: `        end(runner);
        ended(runner);`,
    after: '        end(runner);',
    killedBy: {
      file: 'test/delivery/backoffs.test.ts',
      title: 'a stream has all of its slots again after the first response, of any status',
    },
  },
  {
    name: 'pauses that do not get longer by how many streams of a tenant pause',
    file: 'delivery/backoffs.ts',
    before: 'const sharedMs = (streams * slowSlots * 1000) / unansweredPerSecond;',
    after: 'const sharedMs = (slowSlots * 1000) / unansweredPerSecond;',
    killedBy: {
      file: 'test/delivery/backoffs.test.ts',
      title:
        'the more streams of a tenant do not respond, the fewer attempts each begins; other tenants do not count',
    },
  },
  {
    name: 'a trial that uses up an attempt of the schedule',
    file: 'delivery/outcome.ts',
    before: 'return { attempt: Math.max(1, attempt - 1), leftMs:',
    after: 'return { attempt, leftMs:',
    killedBy: outages('what is tried each minute uses up no attempt of the schedule'),
  },
  {
    name: 'trials that never leave the oldest delivery',
    file: 'delivery/outages.ts',
    before: 'outage.triedTo = found?.offset ?? 0;',
    after: '',
    killedBy: outages(
      'a receiver that is back is found although events that always fail are tried first',
    ),
  },
  {
    name: 'successes that do not end a row of deliveries that began to wait',
    file: 'delivery/outage.ts',
    before: 'this.begun = 0;',
    after: '',
    killedBy: outages('they stop neither the others nor the stream, however many wait'),
  },
  {
    name: 'a release that goes on without a success',
    file: 'delivery/outages.ts',
    before: 'if (outage.hasSucceeded) {',
    after: "if (outage.state === 'releasing') {",
    killedBy: outages(
      'a receiver that accepts one request and no more uses up the schedules of few',
    ),
  },
  {
    name: 'a replay with as many waiting deliveries as slots',
    file: 'delivery/runner.ts',
    before: 'return Math.max(least, limits.disable.total - slots - waiting - open);',
    after: 'return least;',
    killedBy: outages('a replay is not held up by more of them than it has slots'),
  },
  {
    name: 'bodies under way that are not counted',
    file: 'delivery/shares.ts',
    before: 'usage.bytes += sign * bytes;',
    after: '',
  },
  {
    name: 'an attempt that hangs and counts as quick until it ends',
    file: 'delivery/scheduler.ts',
    before: `this.#shares.change(slot, { expectation: 'slow' });`,
    after: '',
    killedBy: {
      file: 'test/delivery/fairness.test.ts',
      title: 'quick streams may have every slot of the node, and count as slow once they hang',
    },
  },
  {
    name: 'a tenant that was at its share and is never offered a slot again',
    file: 'delivery/scheduler.ts',
    before: `this.#holdings.delete(tenant);
    this.#renew();`,
    after: 'this.#holdings.delete(tenant);',
    killedBy: {
      file: 'test/delivery/fairness.test.ts',
      title: 'slots that another tenant releases go to a quick stream, not to those that hang',
    },
  },
  {
    name: 'an idle stream whose event finds no room in memory and is found by polling',
    file: 'delivery/prefetch/prefetch.ts',
    before: 'for (const runner of refused) this.fill(runner);',
    after: '',
    killedBy: {
      file: 'test/delivery/prefetch/prefetch.test.ts',
      title: 'an idle stream is sent its next event although others use all queue memory',
    },
  },
  {
    name: 'an owner whose name lookups exceed its bound',
    file: 'delivery/http/name-lookups.ts',
    before: 'if (hasRoom(owner.underWay, this.#atOncePerOwner, index)) return owner;',
    after: 'return owner;',
    killedBy: {
      file: 'test/delivery/http/name-lookups.test.ts',
      title: 'concurrent lookups are bounded per tenant, also for the service itself',
    },
  },
  {
    name: 'events that are shown before they are synced',
    file: 'store/engine/sqlite/log.ts',
    before: '=> syncedHeads.get(tenant) ?? headOf(db, tenant)',
    after: '=> headOf(db, tenant)',
    killedBy: append('append: resolves, is visible and emits its hint once it is on the disk'),
  },
  {
    name: 'a sync that covers what was committed after it began',
    file: 'store/engine/sqlite/wal-sync.ts',
    before: 'this.#present = this.#waiting;\n    this.#waiting = [];',
    after: 'this.#waiting = this.#present;',
    killedBy: append(
      'append: shares a sync with appends that were committed before the sync began',
    ),
  },
  {
    name: 'a sync that counts after one that failed',
    file: 'store/engine/sqlite/wal-sync.ts',
    before: 'if (this.#hasFailed) repair();',
    after: 'if (this.#isClosed) repair();',
    killedBy: append(
      'append: is refused when the disk fails, and the next one resolves once everything before it is safe',
    ),
  },
  {
    name: 'a part of an append that is taken for the whole',
    file: 'store/engine/sqlite/append.ts',
    before: 'return isAt(db, tenant, head) && row?.count === written.length;',
    after: 'return row !== undefined && head >= 0 && written.length > 0;',
    killedBy: append('append: another change of the tenant at part 3 comes before it'),
  },
  {
    name: 'a part of an append that outlives its refusal',
    file: 'store/engine/sqlite/append.ts',
    before: 'db.run`delete from events where tenant = ${tenant} and offset > ${tip.head}`;',
    after: '',
    killedBy: append('append: a refused last part leaves nothing'),
  },
  {
    name: 'retries of a paused stream that are claimed',
    file: 'store/rules/pause.ts',
    before: `(status === 'enabled' && (!isPaused || kind === 'test'))`,
    after: `(status === 'enabled' || !isPaused)`,
    killedBy: {
      file: 'test/store/sqlite.test.ts',
      title:
        'claimDue: a paused stream returns redeliveries and tests only, and the rest once it is resumed',
    },
  },
  {
    name: 'a cycle that counts the pauses that ended',
    file: 'store/rules/pause.ts',
    before: 'return pausedAt === null ? pausedMs : pausedMs + Math.max(0, now - pausedAt);',
    after: 'return pausedAt === null ? 0 : Math.max(0, now - pausedAt);',
    killedBy: {
      file: 'test/store/sqlite.test.ts',
      title: 'pauses that ended do not count: the cycle ends that much later',
    },
  },
  {
    name: 'a cycle that counts the present pause',
    file: 'store/rules/pause.ts',
    before:
      'run.pausedAt === null ? run : { ...run, pausedAt: null, pausedMs: pausedFor(run, now) };',
    after: 'run.pausedAt === null ? run : { ...run, pausedAt: null };',
    killedBy: {
      file: 'test/delivery/pauses.test.ts',
      title: 'a cycle of 72 h does not count a pause of 60 h',
    },
  },
  {
    name: 'cycles that begin after a pause and are longer',
    file: 'store/rules/settlement.ts',
    before: 'const cycleAt = row?.cycleAt ?? now - pausedMs;',
    after: 'const cycleAt = row?.cycleAt ?? now;',
    killedBy: {
      file: 'test/store/sqlite.test.ts',
      title: 'a cycle that begins after a pause, or during one, is no longer than others',
    },
  },
  {
    name: 'a paused stream that takes events of the log',
    file: 'delivery/runner.ts',
    before: 'return this.enabled && this.stream.paused === undefined;',
    after: 'return this.enabled || this.stream.paused !== undefined;',
    killedBy: {
      file: 'test/delivery/pauses.test.ts',
      title: 'events of the pause wait, and are sent in order once it is resumed',
    },
  },
  {
    name: 'a claimed retry that is sent after the pause began',
    file: 'delivery/prefetch/due-claims.ts',
    before: `if (!runner.sends && row.kind === 'first') return`,
    after: `if (!runner.enabled && row.kind === 'first') return`,
    killedBy: {
      file: 'test/delivery/pauses.test.ts',
      title: 'a retry that was claimed when the pause began waits',
    },
  },
  {
    name: 'a queue without the items of the tenant whose item is being offered',
    file: 'delivery/fair-queue.ts',
    before: `      const queue = this.#next();
      if (queue === undefined) return false;
      if (this.#offerOf(queue, offer) === 'taken') return true;`,
    after: `      const queue = this.#round.shift();
      if (queue === undefined) return false;
      const result = this.#offerOf(queue, offer);
      if (queue.items.length === 0) this.#tenants.delete(queue.tenant);
      else this.#round.push(queue);
      if (result === 'taken') return true;`,
    killedBy: {
      file: 'test/delivery/fair-queue.test.ts',
      title: 'an offer may offer the next item: every item is taken once',
    },
  },
  {
    name: 'a stream whose results were refused that waits for the next start',
    file: 'delivery/abandoned-streams.ts',
    before: 'const wait = this.#clock.after(backoffMs(times, waits), () => this.takeUp(key));',
    after: 'const wait = this.#clock.after(Infinity, () => this.takeUp(key));',
    killedBy: {
      file: 'test/delivery/refused-results.test.ts',
      title: 'is failing with the reason, and is sent again soon after the store records results',
    },
  },
  {
    name: 'a note of a refusal that holds up the node until the store accepts it',
    file: 'delivery/ownership.ts',
    before: 'void this.#enqueue(() => runForEach(this.#deps, [cursor], { run, refused: failed }));',
    after: 'void this.#enqueue(() => this.#deps.storeRetry.run(run)).then(() => failed);',
    killedBy: {
      file: 'test/delivery/refused-results.test.ts',
      title: 'a stream of which the store refuses every change of its row holds up no other',
    },
  },
  {
    name: 'a claim that is refused as a whole for one stream',
    file: 'delivery/claim-streams.ts',
    before: 'claim({ ...request, takesOnly: true })',
    after: 'claim(request)',
    killedBy: {
      file: 'test/delivery/refused-results.test.ts',
      title: 'a free stream of which the store refuses to change a row holds up no other',
    },
  },
  {
    name: 'a delivery that the node could not send and that counts as in progress',
    file: 'store/rules/settlement.ts',
    before:
      'const waits = outcome.hasEnded === true && !(isDisabled && endsWithStream(outcome.kind));',
    after: 'const waits = false;',
    killedBy: {
      file: 'test/delivery/shortages.test.ts',
      title:
        'a delivery whose trial the node could not make is sent along with the others when the receiver is back',
    },
  },
  {
    name: 'a receiver that is down again as the node cannot send what waits for it',
    file: 'delivery/outage.ts',
    before: 'return !this.hasSucceeded && (this.hasFailed || !this.wasWithdrawn);',
    after: 'return !this.hasSucceeded;',
    killedBy: {
      file: 'test/delivery/shortages.test.ts',
      title: 'a receiver that is back is not down again for what the node cannot send of the rest',
    },
  },
  {
    name: 'a new stream that waits for a heartbeat',
    file: 'delivery/ownership.ts',
    before: 'const room = Math.max(this.#beyond, lease.share - this.runners.size);',
    after: 'const room = lease.share - this.runners.size;',
    killedBy: {
      file: 'test/simulation/simulation.test.ts',
      title:
        'the shortened history of a fixed fault violates nothing: a new stream that waits for a heartbeat',
    },
  },
  {
    name: 'streams that are announced during a claim and wait for a heartbeat',
    file: 'delivery/ownership.ts',
    before: '(this.#sweep.isUnderWay ? this.#beyond : 0)',
    after: '0',
    killedBy: {
      file: 'test/delivery/announced-streams.test.ts',
      title:
        'streams that are announced while others are claimed are taken before the next heartbeat',
    },
  },
  {
    name: 'a stream given up before others have room',
    file: 'delivery/ownership.ts',
    before: 'const before = this.#above;',
    after: 'const before = Infinity;',
    killedBy: {
      file: 'test/simulation/simulation.test.ts',
      title:
        'the shortened history of a fixed fault violates nothing: a stream given up before others have room',
    },
  },
];
