import type { Health, HealthLimits, Node } from '../../src/core/types.ts';
import type {
  DeliveryStore,
  DueRows,
  DueRequest,
  DueRules,
} from '../../src/store/port/deliveries.ts';
import type { SettledStream, Settlement } from '../../src/store/port/settlement.ts';
import * as model from '../store/contract/model.ts';
import { type Account, processOf } from './account.ts';
import type { Attempts } from './attempts.ts';
import type { Line } from './line.ts';
import type { Tables } from './tables.ts';

type RedeliverResult = Awaited<ReturnType<DeliveryStore['redeliver']>>;

const asOpen = ({ state }: model.ModelRow): RedeliverResult =>
  state === 'failed' ? 'accepted' : 'retrying';

/** The arguments of one `settle` command. */
export interface Batch {
  readonly node: Node;
  readonly batch: number;
  readonly settlements: readonly Settlement[];
  readonly limits: HealthLimits;
}

/** Rows of deliveries: handed out, settled, and made again. */
export class Results {
  readonly batches = new Set<string>();
  /** When settlements were recorded, in order. */
  readonly settledAt: number[] = [];
  readonly #account: Account;
  readonly #tables: Tables;
  readonly #attempts: Attempts;
  /** Days before this one may have left the history. */
  #historyBefore = -Infinity;

  constructor(account: Account, tables: Tables, attempts: Attempts) {
    this.#account = account;
    this.#tables = tables;
    this.#attempts = attempts;
  }

  settled(batch: Batch, streams: readonly SettledStream[], attemptsBefore: number): void {
    const key = `${processOf(batch.node)} ${batch.batch}`;
    if (this.batches.has(key)) {
      if (this.#tables.attemptsRecorded() !== attemptsBefore) {
        this.#account.break('repeated', `batch ${key} was recorded a second time`);
      }
      for (const { stream } of batch.settlements) this.#tables.checkStream(stream);
      return;
    }
    this.batches.add(key);
    this.settledAt.push(this.#account.deps.nowMs());
    const entriesBefore = this.#entries();
    batch.settlements.forEach((settlement, index) => {
      if (streams[index]?.result === 'recorded') this.#record(batch, settlement);
      else this.#tables.checkStream(settlement.stream);
    });
    const expected = this.#entries() - entriesBefore;
    const found = this.#tables.attemptsRecorded() - attemptsBefore;
    if (found !== expected) {
      this.#account.break(
        'recorded',
        `batch ${key} has ${found} entries of history, not ${expected}`,
      );
    }
  }

  /** Entries of the histories of all streams. */
  #entries(): number {
    return [...this.#account.lines.values()].reduce((sum, { counts }) => sum + counts.entries, 0);
  }

  #record(batch: Batch, settlement: Settlement): void {
    const line = this.#account.lines.get(settlement.stream);
    const process = processOf(batch.node);
    if (line === undefined) return;
    if (line.owner?.process !== process || line.owner.epoch !== settlement.epoch) {
      this.#account.break(
        'owner',
        `results of ${process} for ${line.label}, which has another owner`,
      );
    }
    const { limits } = batch;
    const now = this.#account.deps.now();
    settlement.outcomes.forEach((outcome, index) => {
      const { event, result } = outcome;
      const wrong = this.#attempts.contradicts(process, line, outcome);
      if (wrong !== undefined) this.#account.break('schedule', wrong);
      if (result === 'delivered') {
        line.deliveredAt.set(event.offset ?? event.id, Math.floor(now - outcome.agoMs));
        if (!line.accepted.has(event.id))
          this.#account.break('truth', `${event.id} of ${line.label}`);
        line.recorded.add(event.id);
      }
      this.checkText(line, 'error' in outcome ? outcome.error : undefined);
      if (!outcome.hasRow && line.counts.rows.has(event.id)) {
        this.#account.break(
          'twice',
          `${event.id} has a row of ${line.label} and was sent without it`,
        );
      }
      const isLast = index === settlement.outcomes.length - 1;
      const cursor = isLast ? settlement.cursor : 0;
      model.settle(line.counts, outcome, { cursor, run: settlement.run, now, limits });
    });
    this.#tables.check(line, { process, epoch: settlement.epoch }, settlement.cursor);
    this.#checkWaiting(line, limits);
  }

  #checkWaiting(line: Line, limits: Health): void {
    const { streamConcurrency } = this.#account.deps.settings;
    const rows = [...line.counts.rows.values()];
    const waiting = rows.filter(({ kind, dueAt }) => kind === 'first' && dueAt !== undefined);
    if (waiting.length > limits.consecutive + streamConcurrency) {
      this.#account.break(
        'bounds',
        `${waiting.length} deliveries of ${line.label} wait for a retry`,
      );
    }
    const open = rows.filter((row) => model.isOpen(row) && row.offset !== undefined).length;
    if (open > limits.total + limits.consecutive + 2 * streamConcurrency) {
      this.#account.break('bounds', `${open} open failures of ${line.label}`);
    }
  }

  /** Texts of strangers go on without the stream's secrets. */
  checkText(line: Line, text: string | undefined): void {
    for (const token of line.tokens) {
      if (text?.includes(token)) this.#account.break('secrets', `${line.label}: ${text}`);
    }
  }

  claimedDue(
    asks: readonly DueRequest[],
    now: number,
    rules: DueRules,
    answers: readonly DueRows[],
  ): void {
    asks.forEach((ask, index) => {
      const line = this.#account.lines.get(ask.stream);
      const rows = answers[index]?.rows ?? [];
      if (line === undefined || line.isDeleted) return;
      if (ask.epoch !== line.counts.epoch || line.owner === undefined) {
        if (rows.length > 0)
          this.#account.break('owner', `a former owner got rows of ${line.label}`);
        return;
      }
      const { taken } = model.claimDue(line.counts, now, rules, ask.take);
      const got = rows.map(({ event }) => event.id);
      for (const { event, kind, attempt } of rows) {
        line.handedOut.set(event.id, kind);
        const expected = line.counts.rows.get(event.id)?.attempt;
        if (attempt !== expected) {
          const what = `attempt ${attempt} of ${event.id}, not ${expected}`;
          this.#account.break('schedule', `${line.label} hands out ${what}`);
        }
      }
      if (got.join(' ') !== taken.join(' ')) {
        this.#account.break(
          'counters',
          `${line.label} handed out [${got.join()}] and not [${taken.join()}]`,
        );
      }
    });
  }

  /** Entries of whole days before this instant may have left the history. */
  historyPruned(before: number): void {
    this.#historyBefore = Math.max(this.#historyBefore, before);
  }

  /** Redelivering an event was answered so. */
  askedAgain(stream: string, eventId: string, answer: RedeliverResult): void {
    const line = this.#account.lines.get(stream);
    if (line === undefined || line.isDeleted) return;
    const row = line.counts.rows.get(eventId);
    const expected = row === undefined ? this.#asDelivered(line, eventId) : asOpen(row);
    if (expected !== undefined && answer !== expected) {
      this.#account.break('asked', `${eventId} of ${line.label} is ${expected}, not ${answer}`);
    }
  }

  /** Whether the history has a success; `undefined` when that may have been pruned. */
  #asDelivered(line: Line, eventId: string): RedeliverResult | undefined {
    const logged = line.log.model.log.findLast(({ id }) => id === eventId);
    const at = line.deliveredAt.get(logged?.offset ?? eventId);
    if (at === undefined) return 'unknown';
    return at < this.#historyBefore ? undefined : 'delivered';
  }

  redelivered(stream: string, eventIds: readonly string[], now: number): void {
    const line = this.#account.lines.get(stream);
    if (line === undefined) return;
    for (const eventId of eventIds) {
      model.redeliver(line.log.model, line.counts, eventId, now);
      line.cycles.set(eventId, (line.cycles.get(eventId) ?? 0) + 1);
    }
    this.#tables.checkStream(stream);
  }

  redeliveredAll(stream: string, count: number, now: number): void {
    const rows = [...(this.#account.lines.get(stream)?.counts.rows.values() ?? [])];
    const failed = rows.filter(({ state }) => state === 'failed').map(({ eventId }) => eventId);
    if (failed.length !== count)
      this.#account.break('counters', `${count} failures, not ${failed.length}`);
    this.redelivered(stream, failed, now);
  }

  tested(stream: string, eventId: string, now: number): void {
    const line = this.#account.lines.get(stream);
    line?.tests.add(eventId);
    line?.counts.rows.set(eventId, {
      eventId,
      offset: undefined,
      kind: 'test',
      state: 'retrying',
      attempt: 1,
      dueAt: now,
      failedAt: undefined,
    });
  }
}
