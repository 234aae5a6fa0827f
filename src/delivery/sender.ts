import type { Clock } from '../core/clock.ts';
import type { PostResult } from '../core/retry.ts';
import type { Delivery } from '../core/types.ts';
import { outcomeOf, prepareRequest, targetOf, type Attempt, type Ended } from './attempt.ts';
import { createParking } from './parking.ts';
import type { DeliveryReport } from './report.ts';
import type { Rota } from './rota.ts';
import type { Flight, Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';
import type { Settler } from './settler.ts';
import type { Transport } from './transport.ts';

/** Begins attempts, and hands what came of them to be settled. */
export interface Sender {
  /** Sends the next event of the queue in the slot that the runner was given. */
  beginFresh(runner: Runner): void;
  /** Sends a row that was claimed, in the slot that was kept for it. */
  beginDue(runner: Runner, row: Delivery): void;
  /** Cuts off every attempt of the runner. */
  cutOff(runner: Runner): void;
  close(): void;
}

export interface SenderDeps {
  readonly transport: Pick<Transport, 'post'>;
  readonly clock: Clock;
  readonly settings: DeliverySettings;
  readonly settler: Pick<Settler, 'add'>;
  readonly rota: Pick<Rota, 'free' | 'tell' | 'pump'>;
  /** The runner's queue has become shorter. */
  readonly taken: (runner: Runner, bodyBytes: number) => void;
  readonly report: (event: DeliveryReport) => void;
}

export function createSender(deps: SenderDeps): Sender {
  const { clock, settings, settler, rota } = deps;
  const parking = createParking({ clock, settings, park: (flight) => park(flight) });

  const begin = (runner: Runner, what: Begun): Flight => {
    const flight: Flight = {
      runner,
      ...what,
      offset: what.fresh ? (what.event.offset ?? 0) : 0,
      at: clock.now(),
      startedMs: clock.elapsedMs(),
      settled: false,
      target: undefined,
      post: undefined,
    };
    runner.attempts.add(flight);
    void post(flight).then((result) => end(flight, result));
    return flight;
  };
  const post = (flight: Flight): Promise<PostResult> => {
    const { runner, event, at } = flight;
    try {
      runner.target ??= targetOf(runner.stream, settings);
      flight.target = runner.target;
      flight.post = deps.transport.post(prepareRequest(flight.target, event, at));
      return flight.post.ended;
    } catch (error) {
      // The API lets no stream in that no request can be made of. Should one be there, its
      // deliveries fail where they can be seen, and the other streams go on.
      deps.report({ kind: 'unexpected', error });
      return Promise.resolve({ kind: 'broken', cause: 'protocol', detail: 'no request' });
    }
  };

  const park = (flight: Flight): void => {
    const { runner, event, kind, attempt, hasRow, at } = flight;
    const dueAt = at + settings.attemptTimeoutMs + settings.leaseGraceMs;
    flight.hasRow = true;
    runner.window.settle(flight);
    settler.add(runner, { result: 'parked', event, kind, attempt, hasRow, dueAt });
  };

  const end = (flight: Flight, result: PostResult): void => {
    const { runner } = flight;
    runner.attempts.delete(flight);
    if (flight.fresh) runner.freshInFlight -= 1;
    else runner.dueInFlight -= 1;
    if (runner.state === 'gone') flight.settled = true;
    else settle(flight, result);
    rota.free(1);
    rota.tell(runner);
    rota.pump();
  };
  const settle = (flight: Flight, result: PostResult): void => {
    const { runner } = flight;
    const ended = { now: clock.now(), elapsedMs: clock.elapsedMs() };
    const outcome = outcomeOf(flight, result, ended, settings);
    if (flight.fresh) {
      runner.window.settle(flight);
      parking.settled(flight);
    }
    settler.add(runner, outcome);
    deps.report(reportOf(runner, outcome));
  };

  return {
    beginFresh: (runner) => {
      const event = runner.queue.shift();
      if (event === undefined) throw new Error('A runner without an event wanted to send one.');
      runner.freshInFlight += 1;
      const flight = begin(runner, {
        event,
        kind: 'first',
        attempt: 1,
        fresh: true,
        hasRow: false,
      });
      runner.window.take(flight);
      parking.watch(flight);
      deps.taken(runner, event.body.length);
    },
    beginDue: (runner, { event, kind, attempt }) => {
      begin(runner, { event, kind, attempt, fresh: false, hasRow: true });
    },
    cutOff: (runner) => {
      for (const flight of runner.attempts) flight.post?.cancel();
    },
    close: () => parking.close(),
  };
}

type Begun = Pick<Attempt, 'event' | 'kind' | 'attempt' | 'fresh' | 'hasRow'>;

function reportOf({ tenant, id: stream }: Runner, outcome: Ended): DeliveryReport {
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
  };
}
