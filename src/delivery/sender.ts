import assert from 'node:assert/strict';
import type { Clock } from '../core/clock.ts';
import type { AttemptResult } from '../core/retry.ts';
import type { Delivery } from '../core/types.ts';
import type { StoreTime } from '../store/port/time.ts';
import type { Backoffs } from './backoffs.ts';
import { outcomeOf } from './outcome.ts';
import type { ResponseKind } from './pace.ts';
import type { DeliveryReport } from './report.ts';
import { prepareRequest, requestTemplateOf } from './request.ts';
import type { Scheduler } from './scheduler.ts';
import type { InFlightAttempt, Runner } from './runner.ts';
import { type DeliverySettings, leaseMsOf } from './settings.ts';
import type { Settler } from './settler.ts';
import type { Slot } from './shares.ts';
import { createSlowAttempts, type SlowAttempts } from './slow-attempts.ts';
import type { Transport } from './http/transport.ts';

/** Begins attempts, and hands what came of them to be settled. */
export interface Sender {
  /** Sends the next event of the queue in the slot that the runner was given. */
  beginFresh(runner: Runner, slot: Slot): void;
  /** Sends a row that was claimed, in the slot that was kept for it. */
  beginDue(runner: Runner, row: Delivery, slot: Slot): void;
  /**
   * Returns true if an attempt for the runner can begin without waiting for a name lookup; otherwise
   * what resolves when that has ended.
   */
  prepare(runner: Runner): true | Promise<void>;
  /** Returns whether {@link prepare} would return true; starts nothing. */
  isReady(runner: Runner): boolean;
  /** Cuts off every attempt of the runner. */
  cutOff(runner: Runner): void;
  close(): void;
}

export interface SenderDeps {
  readonly transport: Pick<Transport, 'prepare' | 'isReady' | 'post'>;
  readonly clock: Clock;
  /** Of the store, which knows when events were accepted. */
  readonly time: Pick<StoreTime, 'now'>;
  readonly settings: DeliverySettings;
  readonly settler: Pick<Settler, 'add'>;
  readonly scheduler: Pick<Scheduler, 'resize' | 'markSlow' | 'release' | 'enqueue' | 'dispatch'>;
  readonly backoffs: Pick<Backoffs, 'begin' | 'end'>;
  /** The runner's queue has become shorter. */
  readonly taken: (runner: Runner, bodyBytes: number) => void;
  readonly report: (event: DeliveryReport) => void;
}

/** See {@link Sender}. */
export function createSender(deps: SenderDeps): Sender {
  return new WebhookSender(deps);
}

class WebhookSender implements Sender {
  readonly #deps: SenderDeps;
  readonly #slowAttempts: SlowAttempts;
  /** All attempts under way. */
  readonly #flights = new Set<InFlightAttempt>();

  constructor(deps: SenderDeps) {
    this.#deps = deps;
    const { clock, settings } = deps;
    this.#slowAttempts = createSlowAttempts({
      clock,
      settings,
      slow: (flight) => this.#becameSlow(flight),
      park: (flight) => this.#park(flight),
    });
  }

  beginFresh(runner: Runner, slot: Slot): void {
    const event = runner.queue.shift();
    assert(event !== undefined, 'a slot is given to a runner that has something to send');
    runner.freshInFlight += 1;
    const { publishedAt } = event;
    const begun = { event, publishedAt, kind: 'first', attempt: 1 } as const;
    const flight = this.#begin(runner, { ...begun, fresh: true, hasRow: false, slot });
    runner.window.take(flight);
    this.#deps.taken(runner, event.body.length);
  }

  beginDue(runner: Runner, { event, kind, attempt }: Delivery, slot: Slot): void {
    if (kind === 'replay') {
      runner.replayPending += 1;
      runner.fedReplay = runner.replay;
    }
    const publishedAt = runner.publishedAt?.get(event.id);
    runner.publishedAt?.delete(event.id);
    this.#deps.scheduler.resize(slot, Buffer.byteLength(event.body));
    this.#begin(runner, { event, publishedAt, kind, attempt, fresh: false, hasRow: true, slot });
  }

  prepare(runner: Runner): true | Promise<void> {
    const { settings, transport } = this.#deps;
    try {
      runner.template ??= requestTemplateOf(runner.stream, settings);
    } catch {
      // The attempt fails by it, where that can be seen.
      return true;
    }
    return transport.prepare(runner.tenant, runner.template.origin);
  }

  isReady({ template }: Runner): boolean {
    return template === undefined || this.#deps.transport.isReady(template.origin);
  }

  cutOff(runner: Runner): void {
    for (const flight of this.#flights) if (flight.runner === runner) flight.request?.cancel();
  }

  close(): void {
    this.#slowAttempts.close();
  }

  #begin(runner: Runner, begun: Begun): InFlightAttempt {
    const { clock } = this.#deps;
    const flight: InFlightAttempt = {
      runner,
      event: begun.event,
      kind: begun.kind,
      attempt: begun.attempt,
      fresh: begun.fresh,
      hasRow: begun.hasRow,
      offset: begun.fresh ? (begun.event.offset ?? 0) : 0,
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
    this.#flights.add(flight);
    this.#slowAttempts.watch(flight);
    void this.#post(flight).then((result) => this.#end(flight, result));
    return flight;
  }

  #post(flight: InFlightAttempt): Promise<AttemptResult> {
    const { runner, event, at } = flight;
    const { settings, transport, report } = this.#deps;
    try {
      flight.template = runner.template ??= requestTemplateOf(runner.stream, settings);
      flight.request = transport.post(prepareRequest(flight.template, event, at));
      return flight.request.ended;
    } catch (error) {
      // The API lets no stream in that no request can be made of. Should one be there, its
      // deliveries fail where they can be seen, and the other streams go on.
      report({ kind: 'unexpected', error });
      return Promise.resolve({ kind: 'error', cause: 'protocol', detail: 'no request' });
    }
  }

  #becameSlow(flight: InFlightAttempt): void {
    const { scheduler, settings } = this.#deps;
    flight.isSlow = true;
    flight.runner.pace.becameSlow(settings.attemptTimeoutMs);
    scheduler.markSlow(flight.slot);
    if (flight.fresh && !flight.settled) this.#park(flight);
  }

  #park(flight: InFlightAttempt): void {
    const { clock, settings, settler } = this.#deps;
    const { runner, event, kind, attempt, hasRow, startedMs } = flight;
    const leaseMs = Math.max(0, startedMs + leaseMsOf(settings) - clock.elapsedMs());
    flight.hasRow = true;
    runner.window.settle(flight);
    settler.add(runner, { result: 'parked', event, kind, attempt, hasRow, leaseMs });
  }

  #end(flight: InFlightAttempt, result: AttemptResult): void {
    const { scheduler } = this.#deps;
    const { runner } = flight;
    this.#flights.delete(flight);
    flight.ended = true;
    flight.startedMs += flight.request?.waitedMs ?? 0;
    this.#pace(flight, responseKindOf(result));
    if (flight.fresh) runner.freshInFlight -= 1;
    else runner.dueInFlight -= 1;
    if (runner.state === 'gone') flight.settled = true;
    else this.#settle(flight, result);
    scheduler.release(flight.slot);
    scheduler.enqueue(runner);
    scheduler.dispatch();
  }

  #pace({ runner, startedMs, isSlow }: InFlightAttempt, answer: ResponseKind): void {
    const { clock, settings, backoffs } = this.#deps;
    runner.pace.ended(clock.elapsedMs() - startedMs, isSlow, answer);
    if (answer === 'answered') backoffs.end(runner);
    if (answer === 'unanswered' && runner.pace.mustBackOff(settings)) backoffs.begin(runner);
  }

  #settle(flight: InFlightAttempt, result: AttemptResult): void {
    const { clock, time, settings, settler, report } = this.#deps;
    const { runner } = flight;
    const ended = { now: clock.now(), elapsedMs: clock.elapsedMs() };
    const outcome = outcomeOf(flight, result, ended, settings);
    if (flight.fresh) {
      runner.window.settle(flight);
      this.#slowAttempts.settled(flight);
    }
    const { publishedAt, event } = flight;
    if (outcome.result === 'retry' && publishedAt !== undefined) {
      (runner.publishedAt ??= new Map()).set(event.id, publishedAt);
    }
    settler.add(runner, outcome);
    const sincePublishedMs = publishedAt === undefined ? undefined : time.now() - publishedAt;
    report(reportOf(runner, outcome, sincePublishedMs));
  }
}

type Begun = Pick<
  InFlightAttempt,
  'event' | 'publishedAt' | 'kind' | 'attempt' | 'fresh' | 'hasRow' | 'slot'
>;

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
