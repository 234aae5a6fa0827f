import type { Replay } from '../../src/core/types.ts';
import * as model from '../store/contract/model.ts';
import type { Account } from './account.ts';
import type { Line } from './line.ts';
import { wallStart } from './clocks.ts';
import { labelOf } from './simulation.ts';

/** Compares the tables of the store with what is known. */
export class Tables {
  /** As last seen in the table. */
  readonly cursors = new Map<Line, number>();
  readonly #account: Account;
  /** The clock of the store was so far ahead once that hours may have left the statistics. */
  #hoursLeft = false;
  /** The earliest that clock has shown. */
  #earliest = wallStart;

  constructor(account: Account) {
    this.#account = account;
  }

  /** Bodies and entries of the history were removed: open deliveries keep theirs. */
  checkKept(): void {
    const { db } = this.#account.deps.sharedStore;
    const bodiless = db.all<{ stream: string; event: string }>`
      select d.stream, d.event_id as event from deliveries d
      where d.body is null
        and not exists (select 1 from events e where e.tenant = d.tenant and e.offset = d.offset)
        and not exists (
          select 1 from kept_events k where k.tenant = d.tenant and k.offset = d.offset)`;
    for (const { stream, event } of bodiless) {
      this.#account.break(
        'lost',
        `the body of ${event}, which ${labelOf(stream)} has not delivered`,
      );
    }
    const silent = db.all<{ stream: string; event: string }>`
      select d.stream, d.event_id as event
      from deliveries d join runs r on r.tenant = d.tenant and r.stream = d.stream
      where d.failed_at is not null and d.offset is not null
        and not exists (
          select 1 from attempts a where a.stream_key = r.key and a.event_key = d.offset)
        and not exists (
          select 1 from attempts_kept a where a.stream_key = r.key and a.event_key = d.offset)`;
    for (const { stream, event } of silent) {
      this.#account.break(
        'explained',
        `the failure of ${event} of ${labelOf(stream)} has no history`,
      );
    }
  }

  attemptsRecorded(): number {
    return (
      this.#account.deps.sharedStore.db.get<{
        count: number;
      }>`select count(*) as count from attempts`?.count ?? 0
    );
  }

  checkStream(streamId: string): void {
    const line = this.#account.lines.get(streamId);
    if (line !== undefined && !line.isDeleted) this.check(line);
  }

  /** `by` is who may have moved the cursor, and `to` where it may stand at most. */
  check(line: Line, by?: { process: string; epoch: number }, to = Infinity): void {
    const row = this.#account.deps.sharedStore.db.get<RunRow>`
      select r.cursor, r.run, r.epoch, r.consecutive_failures as consecutive,
        r.total_failures as total, s.status, s.version,
        (select count(*) from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream and d.failed_at is not null) as open,
        (select count(*) from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream) as rows,
        (select coalesce(sum(delivered), 0) from stream_stats h
          where h.tenant = r.tenant and h.stream = r.stream) as delivered,
        (select coalesce(sum(failed), 0) from stream_stats h
          where h.tenant = r.tenant and h.stream = r.stream) as failed
      from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where r.tenant = ${line.log.tenant} and r.stream = ${line.id}`;
    if (row === undefined) return this.#account.break('lost', `${line.label} is gone`);
    this.#checkCounts(line, row);
    this.checkReplays(line);
    this.#checkCursor(line, row.cursor, by, to);
  }

  checkReplays({ id, label, counts, log }: Line): void {
    for (const expected of counts.replays.values()) {
      const row = this.#account.deps.sharedStore.db.get<
        Pick<Replay, 'status' | 'matched' | 'sent' | 'failed'>
      >`
        select status, matched, sent, failed from replays
        where tenant = ${log.tenant} and stream = ${id} and id = ${expected.id}`;
      for (const name of ['status', 'matched', 'sent', 'failed'] as const) {
        const [found, value] = [row?.[name], expected[name]];
        const what = `${name} of ${expected.id} of ${label}`;
        if (found !== value) this.#account.break('counters', `${what} is ${found}, not ${value}`);
      }
      const { status, matched, sent, failed } = expected;
      if (status !== 'running' && status !== 'cancelled' && matched !== sent + failed) {
        this.#account.break(
          'lost',
          `${expected.id} found ${matched} and sent ${sent}, failed ${failed}`,
        );
      }
    }
  }

  #checkCounts({ label, counts }: Line, row: RunRow): void {
    const health = model.healthOf(counts);
    const expected: Omit<RunRow, 'cursor' | 'delivered' | 'failed'> = {
      run: counts.run,
      epoch: counts.epoch,
      ...health,
      open: health.total,
      rows: counts.rows.size,
      status: counts.enabled ? 'enabled' : 'disabled',
      version: counts.version,
    };
    for (const [name, value] of Object.entries(expected)) {
      const found = row[name as keyof RunRow];
      if (found !== value)
        this.#account.break('counters', `${name} of ${label} is ${found}, not ${value}`);
    }
    this.#checkStats(label, counts, row);
  }

  /** Hours leave the statistics only when the clock of the store is set ahead by more, from wherever it was. */
  #checkStats(label: string, counts: model.ModelStream, row: RunRow): void {
    const now = this.#account.deps.now();
    this.#earliest = Math.min(this.#earliest, now);
    this.#hoursLeft ||= now - this.#earliest > statsKeptMs;
    if (this.#hoursLeft) return;
    for (const name of ['delivered', 'failed'] as const) {
      if (row[name] === counts[name]) continue;
      const what = `${name} deliveries of ${label}: ${row[name]}, not ${counts[name]}`;
      this.#account.break('recorded', what);
    }
  }

  #checkCursor(
    line: Line,
    cursor: number,
    by: { process: string; epoch: number } | undefined,
    to: number,
  ): void {
    const { counts, label } = line;
    const before = this.cursors.get(line) ?? 0;
    this.cursors.set(line, cursor);
    if (cursor < before) this.#account.break('passed', `the cursor of ${label} fell to ${cursor}`);
    counts.cursor = cursor;
    if (cursor <= before) return;
    const { owner } = line;
    if (by !== undefined && (owner?.process !== by.process || owner.epoch !== by.epoch)) {
      this.#account.break('owner', `${by.process} moved the cursor of ${label}`);
    }
    if (cursor > to)
      this.#account.break('passed', `the cursor of ${label} went to ${cursor}, not to ${to}`);
    for (let offset = before + 1; offset <= cursor; offset += 1) this.#checkPassed(line, offset);
  }

  #checkPassed(line: Line, offset: number): void {
    const event = line.log.event(offset);
    if (event === undefined)
      return this.#account.break('passed', `${line.label} passed ${offset}, ahead of the log`);
    if (!this.#account.wants(line, offset) || line.leftOut.has(offset)) return;
    const hasRow = this.#account.deps.sharedStore.db.get`
      select 1 from deliveries
      where tenant = ${line.log.tenant} and stream = ${line.id} and event_id = ${event.id}`;
    if (hasRow === undefined && !line.recorded.has(event.id)) {
      this.#account.break('passed', `the cursor of ${line.label} passed ${event.id} at ${offset}`);
    }
  }

  cursorNow({ id, log: { tenant } }: Line): number {
    const { db } = this.#account.deps.sharedStore;
    const row = db.get<{ cursor: number }>`
      select cursor from runs where tenant = ${tenant} and stream = ${id}`;
    return row?.cursor ?? 0;
  }

  /** The history is pruned, and the model's is not. */
  firstAt({ id, log: { tenant } }: Line, offset: number): number | undefined {
    const { db } = this.#account.deps.sharedStore;
    const row = db.get<{ at: number | null }>`
      select min(a.at) as at from attempts a join runs r on r.key = a.stream_key
      where r.tenant = ${tenant} and r.stream = ${id} and a.event_key = ${offset}`;
    return row?.at ?? undefined;
  }

  /** A change holds once its owner has seen it, and anyway once an operator was told so. */
  mustHold(line: Line): boolean {
    const { db } = this.#account.deps.sharedStore;
    const { tenant } = line.log;
    const row = db.get<{ unseen: number }>`
      select unseen from runs where tenant = ${tenant} and stream = ${line.id}`;
    return row?.unseen === 0 || line.knownVersion >= line.counts.version;
  }
}

interface RunRow {
  readonly cursor: number;
  readonly run: number;
  readonly epoch: number;
  readonly consecutive: number;
  readonly total: number;
  readonly status: string;
  readonly version: number;
  readonly open: number;
  readonly rows: number;
  readonly delivered: number;
  readonly failed: number;
}

/** Somewhat less than the 90 days for which hours are kept. */
const statsKeptMs = 85 * 86_400_000;
