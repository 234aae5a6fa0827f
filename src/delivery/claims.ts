import type { Clock, Millis, Timer } from '../core/clock.ts';
import type { Delivery } from '../core/types.ts';
import type { DeliveryStore, DueAnswer } from '../store/port.ts';
import type { Lane, Patience } from './patience.ts';
import type { Rota } from './rota.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';
import type { Settler } from './settler.ts';

/** Two claims are at least so far apart, so that many runners share one. */
const gatherMs = 10;

/** What the history says of a delivery that a stream's disabling overtook. */
const disabledMessage = 'The event stream is disabled';

/** Gets rows for the slots that are kept for them. */
export interface Claims {
  /** Slots that wait for their row. */
  readonly granted: number;
  /** Claims a row for the slot that the runner was given. */
  grant(runner: Runner): void;
  /** Begins what was claimed while the runner was stale. */
  resume(runner: Runner): void;
  close(): void;
}

export interface ClaimDeps {
  readonly deliveries: Pick<DeliveryStore, 'claimDue'>;
  readonly clock: Clock;
  readonly lane: Lane;
  readonly patience: Patience;
  readonly settler: Pick<Settler, 'add' | 'settleNow'>;
  readonly rota: Pick<Rota, 'tell' | 'pump' | 'free'>;
  readonly settings: Pick<DeliverySettings, 'attemptTimeoutMs' | 'leaseGraceMs'>;
  readonly begin: (runner: Runner, row: Delivery) => void;
  /** The runner's next row is due then. */
  readonly note: (runner: Runner, dueAt: Millis | undefined) => void;
}

/**
 * One query for all runners. What has ended is settled first: a row whose lease is over because
 * its result could not be written for long must not be sent again.
 */
export function createClaims(deps: ClaimDeps): Claims {
  const { clock, rota, settings, settler } = deps;
  let asking = new Set<Runner>();
  let granted = 0;
  let scheduled = false;
  let pause: Timer | undefined;
  let closed = false;

  const schedule = (): void => {
    if (scheduled || pause !== undefined) return;
    scheduled = true;
    void deps.lane(claim).then(rest);
  };
  const rest = (): void => {
    scheduled = false;
    if (closed) return;
    pause = clock.after(gatherMs, () => {
      pause = undefined;
      if (asking.size > 0) schedule();
    });
  };
  const claim = async (): Promise<void> => {
    await settler.settleNow();
    const runners = [...asking];
    asking = new Set();
    const asks = runners.filter((runner) => runner.state === 'active' && !closed);
    for (const runner of runners) {
      if (runner.state !== 'active' || closed) giveBack(runner, slotsKept(runner));
    }
    if (asks.length > 0) await take(asks);
    rota.pump();
  };
  const slotsKept = ({ granted: slots, claimed }: Runner): number => slots - claimed.length;
  const take = async (runners: readonly Runner[]): Promise<void> => {
    const asks = runners.map((runner) => ({
      tenant: runner.tenant,
      stream: runner.id,
      epoch: runner.epoch,
      take: slotsKept(runner),
    }));
    // What becomes due from here on asks anew.
    for (const runner of runners) runner.dueWaits = false;
    const leaseMs = settings.attemptTimeoutMs + settings.leaseGraceMs;
    const ask = (): Promise<DueAnswer[]> =>
      deps.deliveries.claimDue(asks, clock.now(), clock.now() + leaseMs);
    const answers = await deps.patience.keepTrying(ask);
    answers.forEach((answer, index) => {
      const runner = runners[index];
      if (runner !== undefined) distribute(runner, asks[index]?.take ?? 0, answer);
    });
  };
  const distribute = (runner: Runner, slots: number, { rows, nextDueAt }: DueAnswer): void => {
    giveBack(runner, slots - rows.length);
    deps.note(runner, nextDueAt);
    for (const row of rows) begin(runner, row, clock.now());
    rota.tell(runner);
  };
  const begin = (runner: Runner, row: Delivery, claimedAt: Millis): void => {
    if (runner.state === 'stale' && !closed) {
      runner.claimed.push({ row, claimedAt });
      return;
    }
    const late = clock.now() - claimedAt > settings.leaseGraceMs;
    if (runner.state === 'gone' || closed || late) return giveBack(runner, 1);
    if (!runner.enabled && row.kind !== 'redelivery') return refuse(runner, row);
    runner.granted -= 1;
    granted -= 1;
    deps.begin(runner, row);
  };
  /** The stream was disabled between the claim and the attempt: it is sent nothing. */
  const refuse = (runner: Runner, { event, kind, attempt }: Delivery): void => {
    giveBack(runner, 1);
    const ended = { at: clock.now(), durationMs: 0, status: undefined, error: disabledMessage };
    settler.add(runner, { result: 'failed', event, kind, attempt, hasRow: true, ...ended });
  };
  const giveBack = (runner: Runner, slots: number): void => {
    runner.granted -= slots;
    runner.dueInFlight -= slots;
    granted -= slots;
    rota.free(slots);
  };

  return {
    get granted() {
      return granted;
    },
    grant: (runner) => {
      runner.granted += 1;
      runner.dueInFlight += 1;
      granted += 1;
      asking.add(runner);
      schedule();
    },
    resume: (runner) => {
      for (const { row, claimedAt } of runner.claimed.splice(0)) begin(runner, row, claimedAt);
    },
    close: () => {
      closed = true;
      pause?.cancel();
      pause = undefined;
      if (asking.size > 0) schedule();
    },
  };
}
