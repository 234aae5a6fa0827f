import type { Clock, Timer } from '../core/clock.ts';
import { StoreContentRefused } from '../core/errors.ts';
import type { Offset } from '../core/types.ts';
import type {
  DeliveryStore,
  Node,
  Outcome,
  SettleBatch,
  SettledStream,
  Settlement,
} from '../store/port.ts';
import { rowsMore } from './attempt.ts';
import type { Lane, Patience } from './patience.ts';
import type { DeliveryReport } from './report.ts';
import type { Runner } from './runner.ts';
import type { DeliverySettings } from './settings.ts';

/** Records results of all streams, many in one transaction. */
export interface Settler {
  /** Results that are not in the store yet. */
  readonly unsettled: number;
  add(runner: Runner, outcome: Outcome): void;
  /** Records soon what has gathered, without waiting for more. */
  flush(): void;
  /** Records now what has gathered. Only for who has the lane. */
  settleNow(): Promise<void>;
  /** Forgets what is not recorded and records nothing any more. */
  close(): void;
}

export interface SettlerDeps {
  readonly deliveries: Pick<DeliveryStore, 'settle'>;
  readonly node: Node;
  readonly clock: Clock;
  readonly lane: Lane;
  readonly patience: Patience;
  readonly settings: Pick<DeliverySettings, 'settleMs' | 'settleMax' | 'disable'>;
  readonly report: (event: DeliveryReport) => void;
  /** What became of a runner's part of a batch. */
  readonly settled: (runner: Runner, settled: SettledStream, part: SettledPart) => void;
  /** The results of one batch are in the store. */
  readonly batchSettled: () => void;
  /** The store refuses a result whatever it says: the stream must be left alone. */
  readonly abandon: (runner: Runner) => void;
}

/** What of a batch belongs to one runner. */
export interface SettledPart {
  readonly cursor: Offset;
  readonly outcomes: readonly Outcome[];
}

interface Result {
  readonly runner: Runner;
  outcome: Outcome;
  /** On the last result of its runner in a batch: how far this and all before it bring it. */
  cursor: Offset | undefined;
}

/**
 * One batch at a time. What is in a batch and its number do not change once it was sent, so that
 * the same batch can be repeated after a commit whose answer was lost; later results go to the
 * next. A batch that is refused for its content is halved until the culprit stands alone.
 */
export function createSettler(deps: SettlerDeps): Settler {
  const { settings, lane } = deps;
  let gathered: Result[] = [];
  let unsettled = 0;
  let batch = 0;
  let timer: Timer | undefined;
  let scheduled = false;
  let closed = false;

  const start = (): void => {
    if (scheduled || closed) return;
    scheduled = true;
    timer?.cancel();
    timer = undefined;
    void lane(settleNow);
  };
  const settleNow = async (): Promise<void> => {
    scheduled = false;
    const results = closeBatch(gathered);
    gathered = [];
    if (results.length > 0) await record(results);
    plan();
  };
  const plan = (): void => {
    if (closed) return;
    if (gathered.length >= settings.settleMax) start();
    else if (gathered.length > 0) timer ??= deps.clock.after(settings.settleMs, start);
  };

  /** Sends a batch, or what is left of it, until it is in the store. */
  const record = async (results: readonly Result[]): Promise<void> => {
    const present = results.filter(({ runner }) => runner.state !== 'gone');
    unsettled -= results.length - present.length;
    if (present.length === 0) return;
    batch += 1;
    const parts = partsOf(present);
    const content: SettleBatch = {
      node: deps.node,
      batch,
      settlements: [...parts].map(([runner, part]) => settlementOf(runner, part)),
      limits: settings.disable,
      now: deps.clock.now(),
    };
    try {
      const answer = await deps.patience.keepTrying(() => deps.deliveries.settle(content));
      unsettled -= present.length;
      tell(parts, answer.streams, present.length);
    } catch (error) {
      await recordHalves(present, error);
    }
  };
  const recordHalves = async (results: readonly Result[], error: unknown): Promise<void> => {
    const [only, ...others] = results;
    if (others.length === 0 && only !== undefined) return recordAlone(only, error);
    const middle = Math.ceil(results.length / 2);
    await record(results.slice(0, middle));
    await record(results.slice(middle));
  };
  const recordAlone = async (result: Result, error: unknown): Promise<void> => {
    const { runner, outcome } = result;
    const about = { tenant: runner.tenant, stream: runner.id, eventId: outcome.event.id, error };
    const plain = withoutText(outcome);
    if (plain === outcome || !(error instanceof StoreContentRefused)) {
      deps.report({ kind: 'settle_stuck', ...about });
      deps.abandon(runner);
      unsettled -= 1;
      return;
    }
    deps.report({ kind: 'settle_culprit', ...about });
    await record([{ ...result, outcome: plain }]);
  };
  const tell = (
    parts: ReadonlyMap<Runner, SettledPart>,
    streams: readonly SettledStream[],
    outcomes: number,
  ): void => {
    deps.report({ kind: 'settled', outcomes });
    let index = 0;
    for (const [runner, part] of parts) {
      const settled = streams[index];
      index += 1;
      if (settled !== undefined) deps.settled(runner, settled, part);
    }
    deps.batchSettled();
  };

  return {
    get unsettled() {
      return unsettled;
    },
    add: (runner, outcome) => {
      if (closed) return;
      unsettled += 1;
      runner.unsettled += 1;
      runner.rowsPending += rowsMore(outcome);
      gathered.push({ runner, outcome, cursor: undefined });
      plan();
    },
    flush: () => {
      if (gathered.length > 0) start();
    },
    settleNow,
    close: () => {
      closed = true;
      timer?.cancel();
    },
  };
}

/** Fixes how far the results bring the cursors: all that has ended is in this batch or before. */
function closeBatch(results: Result[]): Result[] {
  const last = new Map<Runner, Result>();
  for (const result of results) last.set(result.runner, result);
  for (const [runner, result] of last) result.cursor = runner.cursor();
  return results;
}

/** By runner, in the order in which the attempts ended. */
function partsOf(results: readonly Result[]): Map<Runner, SettledPart> {
  const parts = new Map<Runner, { cursor: Offset; outcomes: Outcome[] }>();
  for (const { runner, outcome, cursor } of results) {
    const part = parts.get(runner);
    // Without its last result the cursor of the runner stays where the store has it.
    if (part === undefined) {
      parts.set(runner, { cursor: cursor ?? runner.window.durable, outcomes: [outcome] });
    } else {
      part.cursor = cursor ?? part.cursor;
      part.outcomes.push(outcome);
    }
  }
  return parts;
}

function settlementOf({ tenant, id: stream, epoch, run }: Runner, part: SettledPart): Settlement {
  return { tenant, stream, epoch, run, ...part };
}

/** What is ours of the error message: the status, or the word before the detail. */
function withoutText(outcome: Outcome): Outcome {
  if (!('error' in outcome)) return outcome;
  const error = /^[a-z0-9 ]*/.exec(outcome.error)?.[0].trim() ?? '';
  return error === outcome.error ? outcome : { ...outcome, error };
}
