import assert from 'node:assert/strict';
import type { Clock, Millis } from '../core/clock.ts';
import {
  type AttemptResult,
  hasStoredText,
  type SendResult,
  type Shortage,
} from '../core/retry.ts';
import type { WebhookKeys } from '../core/sign.ts';
import type { Delivery } from '../core/types.ts';
import { leaseMsOf } from '../core/lease.ts';
import type { StoreTime } from '../store/port/time.ts';
import type { Backoffs } from './backoffs.ts';
import { type AgeWatch, createAgeWatch } from './age-watch.ts';
import { aged, keyOf, outcomeOf } from './outcome.ts';
import type { Shortages } from './http/shortages.ts';
import type { Outages } from './outages.ts';
import type { ResponseKind } from './pace.ts';
import type { DeliveryReport } from './report.ts';
import { createPreparedKeys, type PreparedKeys } from './prepared-keys.ts';
import { requestTemplateOf } from './request.ts';
import type { Scheduler } from './scheduler.ts';
import type { HeldBackEvent, InFlightAttempt, Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';
import type { Settler } from './settler.ts';
import type { Slot } from './shares.ts';
import { noRequest, type SigningTransport } from './signing-transport.ts';
import { createSlowAttempts, type SlowAttempts } from './slow-attempts.ts';
import type { StoreRetry } from './store-retry.ts';
import { createTextQueue, type TextQueue } from './text-queue.ts';

/** Begins attempts and passes their outcomes to the settler. */
export interface Sender {
  /** Sends the next event of the runner's queue. */
  beginFresh(runner: Runner, slot: Slot): void;
  /** An event waits behind its key from now on: it gets a row if that takes long. */
  heldBack(runner: Runner, held: HeldBackEvent): void;
  /** Sends the event of a row that was claimed. */
  beginDue(runner: Runner, row: Delivery, slot: Slot): void;
  /**
   * Returns true if an attempt for the runner can begin without waiting for a name lookup;
   * otherwise a promise that resolves when the lookup has ended.
   */
  prepare(runner: Runner): true | Promise<void>;
  /** Returns whether {@link prepare} would return true; starts nothing. */
  isReady(runner: Runner): boolean;
  /** Cuts off every attempt of the runner. */
  cutOff(runner: Runner): void;
  close(): void;
}

export interface SenderDeps {
  readonly transport: Pick<SigningTransport, 'prepare' | 'isReady' | 'post'>;
  /** The keys of streams that are signed as `v1a`. */
  readonly webhookKeys: WebhookKeys;
  readonly storeRetry: Pick<StoreRetry, 'run'>;
  readonly clock: Clock;
  /** The clock by which events were accepted. */
  readonly time: Pick<StoreTime, 'now'>;
  readonly settings: DeliverySettings;
  readonly settler: Pick<Settler, 'add'>;
  readonly scheduler: Pick<Scheduler, 'resize' | 'markSlow' | 'release' | 'enqueue' | 'dispatch'>;
  readonly backoffs: Pick<Backoffs, 'begin' | 'end'>;
  readonly outages: Pick<Outages, 'ended'>;
  readonly shortages: Pick<Shortages, 'noted'>;
  /** The runner's queue has become shorter. */
  readonly taken: (runner: Runner, bodyBytes: number) => void;
  readonly report: (event: DeliveryReport) => void;
}

/** See {@link Sender}. */
export function createSender(deps: SenderDeps): Sender {
  return new WebhookSender(deps);
}

/** An event that waits behind its key, so that the cursor cannot pass it. */
interface HeldBackOf {
  readonly runner: Runner;
  readonly held: HeldBackEvent;
}

class WebhookSender implements Sender {
  readonly #deps: SenderDeps;
  readonly #slowAttempts: SlowAttempts;
  readonly #heldBackWatch: AgeWatch<HeldBackOf>;
  readonly #textQueue: TextQueue;
  readonly #keys: PreparedKeys;
  /** All attempts under way. */
  readonly #underWay = new Set<InFlightAttempt>();

  constructor(deps: SenderDeps) {
    this.#deps = deps;
    const { clock, settings } = deps;
    this.#slowAttempts = createSlowAttempts({
      clock,
      settings,
      slow: (attempt) => this.#becameSlow(attempt),
      park: (attempt) => this.#park(attempt),
    });
    this.#heldBackWatch = createAgeWatch({
      clock,
      ageMs: settings.parkAfterMs,
      beganMs: ({ held }) => held.sinceMs,
      isOver: ({ held }) => held.isGone,
      expired: ({ runner, held }) => this.#giveRow(runner, held),
    });
    this.#textQueue = createTextQueue(clock);
    this.#keys = createPreparedKeys(deps);
  }

  beginFresh(runner: Runner, slot: Slot): void {
    const heldBack = runner.order?.takeReady();
    const next = heldBack ? { event: heldBack.event, orderKey: heldBack.key } : runner.dequeue();
    assert(next !== undefined, 'a slot is given to a runner that has something to send');
    const { event } = next;
    runner.freshInFlight += 1;
    const { publishedAt } = event;
    const begun = {
      ...next,
      heldBack,
      publishedAt,
      kind: 'first',
      attempt: 1,
      trialDueMs: undefined,
    } as const;
    const attempt = this.#begin(runner, { ...begun, fresh: true, hasRow: false, slot });
    if (heldBack === undefined) runner.window.take(attempt);
    else heldBack.attempt = attempt;
    runner.outage?.eventTaken();
    this.#deps.taken(runner, event.body.length);
  }

  heldBack(runner: Runner, held: HeldBackEvent): void {
    this.#heldBackWatch.watch({ runner, held });
  }

  beginDue(runner: Runner, { event, kind, attempt, orderKey }: Delivery, slot: Slot): void {
    if (kind === 'replay') {
      runner.replayPending += 1;
      runner.pendingReplay = runner.replay;
    }
    const publishedAt = runner.retriesPublishedAt?.get(event.id);
    runner.retriesPublishedAt?.delete(event.id);
    this.#deps.scheduler.resize(slot, Buffer.byteLength(event.body));
    const trialDueMs = runner.outage?.takeTrial(event.id);
    const begun = { event, publishedAt, kind, attempt, orderKey, heldBack: undefined, trialDueMs };
    this.#begin(runner, { ...begun, fresh: false, hasRow: true, slot });
  }

  prepare(runner: Runner): true | Promise<void> {
    const { settings, transport } = this.#deps;
    try {
      runner.template ??= requestTemplateOf(runner.stream, settings);
    } catch {
      // The attempt throws the same error and reports it.
      return true;
    }
    const { hasKey, origin } = runner.template;
    const keyed = hasKey ? this.#keys.prepare(runner.tenant) : true;
    return keyed === true ? transport.prepare(runner.tenant, origin, runner.template) : keyed;
  }

  isReady({ tenant, template }: Runner): boolean {
    if (template === undefined) return true;
    const isKeyed = !template.hasKey || this.#keys.isReady(tenant);
    return isKeyed && this.#deps.transport.isReady(template.origin, template);
  }

  cutOff(runner: Runner): void {
    for (const attempt of this.#underWay) if (attempt.runner === runner) attempt.request?.cancel();
  }

  close(): void {
    this.#slowAttempts.close();
    this.#heldBackWatch.close();
    this.#textQueue.close();
  }

  #begin(runner: Runner, begun: Begun): InFlightAttempt {
    const { clock } = this.#deps;
    const attempt: InFlightAttempt = {
      runner,
      event: begun.event,
      kind: begun.kind,
      attempt: begun.attempt,
      fresh: begun.fresh,
      trialDueMs: begun.trialDueMs,
      hasRow: begun.hasRow,
      offset: begun.fresh ? (begun.event.offset ?? 0) : 0,
      orderKey: begun.orderKey,
      heldBack: begun.heldBack,
      publishedAt: begun.publishedAt,
      at: clock.now(),
      startedMs: clock.elapsedMs(),
      settled: false,
      isSlow: false,
      ended: false,
      slot: begun.slot,
      template: undefined,
      request: undefined,
    };
    const { orderKey } = begun;
    if (orderKey !== undefined && begun.kind === 'first') runner.order?.begun(orderKey, attempt);
    this.#underWay.add(attempt);
    this.#slowAttempts.watch(attempt);
    void this.#post(attempt).then((result) => this.#ended(attempt, result));
    return attempt;
  }

  #post(attempt: InFlightAttempt): Promise<SendResult> {
    const { runner, event, at } = attempt;
    const { settings, transport, report } = this.#deps;
    try {
      const template = (runner.template ??= requestTemplateOf(runner.stream, settings));
      attempt.template = template;
      const key = template.hasKey ? this.#keys.keyOf(runner.tenant) : undefined;
      attempt.request = transport.post({ template, event, at, key });
      return attempt.request.ended;
    } catch (error) {
      report({ kind: 'unexpected', error });
      return Promise.resolve(noRequest);
    }
  }

  #becameSlow(attempt: InFlightAttempt): void {
    const { scheduler, settings } = this.#deps;
    attempt.isSlow = true;
    const { pace, stream } = attempt.runner;
    pace.becameSlow(stream.delivery?.timeoutMs ?? settings.attemptTimeoutMs);
    scheduler.markSlow(attempt.slot);
    if (attempt.fresh && !attempt.settled) this.#park(attempt);
  }

  #park(attempt: InFlightAttempt): void {
    const { clock, settings } = this.#deps;
    const { runner, startedMs } = attempt;
    const leftMs = startedMs + leaseMsOf(settings, runner.stream.delivery) - clock.elapsedMs();
    settleInWindow(attempt);
    this.#addParked(attempt, { leaseMs: Math.max(0, leftMs) });
    attempt.hasRow = true;
  }

  #addParked(attempt: InFlightAttempt, lease: { leaseMs: number; hasEnded?: true }): void {
    const { runner, event, kind, attempt: number, hasRow } = attempt;
    const row = { event, kind, attempt: number, hasRow, ...keyOf(attempt) };
    this.#deps.settler.add(runner, { result: 'parked', ...row, ...lease });
  }

  /** Gives a row to an event that waits behind its key, and before it to the attempt that it waits for. */
  #giveRow(runner: Runner, held: HeldBackEvent): void {
    const { order } = runner;
    if (order === undefined || held.isGone) return;
    const before = order.attemptBefore(held);
    // One that was claimed has its row already; what became of it may be on its way to the store.
    if (before?.hasRow === false) this.#park(before);
    order.block(held);
    runner.window.settle(held);
    const { event, key: orderKey } = held;
    const row = { event, kind: 'first', attempt: 1, hasRow: false, orderKey } as const;
    this.#deps.settler.add(runner, { result: 'blocked', ...row });
    this.#deps.taken(runner, event.body.length);
  }

  /** Ends the attempt; one with a text that is stored keeps its slot until the text has its turn. */
  #ended(attempt: InFlightAttempt, result: SendResult): void {
    const { clock } = this.#deps;
    this.#underWay.delete(attempt);
    attempt.ended = true;
    attempt.startedMs += attempt.request?.waitedMs ?? 0;
    if (result.kind === 'shortage') return this.#withdraw(attempt, result);
    const ended = { now: clock.now(), elapsedMs: clock.elapsedMs() };
    if (!hasStoredText(result)) return this.#end(attempt, result, ended);
    this.#textQueue.run(attempt.runner.tenant, (waitedMs) => {
      this.#end(attempt, waitedMs > textWaitMaxMs ? { ...result, text: '' } : result, ended);
    });
  }

  #end(attempt: InFlightAttempt, result: AttemptResult, ended: Ended): void {
    const { runner } = attempt;
    this.#pace(attempt, responseKindOf(result), ended);
    uncount(attempt);
    if (runner.state === 'gone') attempt.settled = true;
    else this.#settle(attempt, result, ended);
    this.#free(attempt);
  }

  /**
   * Ends an attempt that this node could not make, as if it had not begun: no rule about the receiver, its
   * stream or the schedule hears of it. The event waits as a row that is due when it may be tried again.
   */
  #withdraw(attempt: InFlightAttempt, shortage: Shortage): void {
    const { clock, shortages } = this.#deps;
    const { runner, event, trialDueMs, publishedAt } = attempt;
    const waitMs = shortages.noted(shortage);
    runner.pace.withdrawn(attempt.isSlow);
    if (runner.outage !== undefined) runner.outage.wasWithdrawn = true;
    uncount(attempt);
    if (runner.state === 'gone') attempt.settled = true;
    else {
      if (attempt.fresh && !attempt.settled) settleInWindow(attempt);
      if (publishedAt !== undefined) notePublished(runner, event.id, publishedAt);
      // A trial comes before the time of its delivery, which waits on.
      const leaseMs = Math.max(waitMs, (trialDueMs ?? 0) - clock.elapsedMs());
      this.#addParked(attempt, { leaseMs, hasEnded: true });
      if (attempt.fresh) this.#slowAttempts.settled(attempt);
    }
    this.#free(attempt);
  }

  #free({ runner, slot }: InFlightAttempt): void {
    const { scheduler } = this.#deps;
    scheduler.release(slot);
    scheduler.enqueue(runner);
    scheduler.dispatch();
  }

  #pace(
    { runner, startedMs, isSlow }: InFlightAttempt,
    response: ResponseKind,
    { elapsedMs }: Ended,
  ): void {
    const { settings, backoffs } = this.#deps;
    runner.pace.ended(elapsedMs - startedMs, isSlow, response);
    if (response === 'answered') backoffs.end(runner);
    if (response === 'unanswered' && runner.pace.mustBackOff(settings)) backoffs.begin(runner);
  }

  #settle(attempt: InFlightAttempt, result: AttemptResult, ended: Ended): void {
    const { clock, time, settings, settler, outages, report } = this.#deps;
    const { runner } = attempt;
    const outcome = outcomeOf(attempt, result, ended, settings, clock);
    if (attempt.fresh) {
      settleInWindow(attempt);
      this.#slowAttempts.settled(attempt);
    }
    const { publishedAt, event } = attempt;
    if (outcome.result === 'retry' && publishedAt !== undefined) {
      notePublished(runner, event.id, publishedAt);
    }
    settler.add(runner, aged(outcome, clock.elapsedMs() - ended.elapsedMs));
    outages.ended(runner, outcome, attempt.trialDueMs !== undefined);
    const sincePublishedMs = publishedAt === undefined ? undefined : time.now() - publishedAt;
    report(reportOf(runner, outcome, sincePublishedMs));
  }
}

type Begun = Pick<
  InFlightAttempt,
  | 'event'
  | 'publishedAt'
  | 'kind'
  | 'attempt'
  | 'trialDueMs'
  | 'fresh'
  | 'hasRow'
  | 'orderKey'
  | 'heldBack'
  | 'slot'
>;

/** The attempt is not under way any more: those who hear of its outcome count the others. */
function uncount({ runner, fresh }: InFlightAttempt): void {
  if (fresh) runner.freshInFlight -= 1;
  else runner.dueInFlight -= 1;
}

function notePublished(runner: Runner, eventId: string, publishedAt: Millis): void {
  (runner.retriesPublishedAt ??= new Map()).set(eventId, publishedAt);
}

function settleInWindow(attempt: InFlightAttempt): void {
  attempt.runner.window.settle(attempt.heldBack ?? attempt);
  attempt.settled = true;
}

/** When the response of an attempt had arrived, or its error. */
interface Ended {
  readonly now: Millis;
  readonly elapsedMs: number;
}

/**
 * The text of a response that waited longer is not stored: the row of the attempt is leased for little
 * longer.
 */
const textWaitMaxMs = 1000;

function responseKindOf(result: AttemptResult): ResponseKind {
  if (result.kind === 'response') return 'answered';
  const isCutOff = result.cause === 'timeout' || result.cause === 'cancelled';
  return isCutOff ? 'cut off' : 'unanswered';
}

function reportOf(
  { tenant, id: stream }: Runner,
  outcome: ReturnType<typeof outcomeOf>,
  sincePublishedMs: number | undefined,
): DeliveryReport {
  return {
    kind: 'attempt',
    tenant,
    stream,
    eventId: outcome.event.id,
    eventType: outcome.event.type,
    deliveryKind: outcome.kind,
    attempt: outcome.attempt,
    result: outcome.result,
    status: outcome.status,
    error: 'error' in outcome ? outcome.error : undefined,
    durationMs: outcome.durationMs,
    sincePublishedMs,
  };
}
