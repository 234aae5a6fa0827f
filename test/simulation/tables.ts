import type { Replay } from '../../src/core/types.ts';
import * as model from '../store/contract/model.ts';
import type { OracleCore } from './oracle-core.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import { wallStart } from './clocks.ts';
import { labelOf } from './simulation.ts';

/** Compares the tables of the store with the model. */
export class Tables {
  /** As last seen in the table. */
  readonly cursors = new Map<SimulatedStream, number>();
  readonly #core: OracleCore;
  /** Whether the clock of the store was once so far ahead that hours may have left the statistics. */
  #hoursLeft = false;
  /** The earliest reading of that clock. */
  #earliest = wallStart;

  #watcher: StreamWatcher | undefined;

  constructor(core: OracleCore) {
    this.#core = core;
  }

  watch(watcher: StreamWatcher): void {
    this.#watcher = watcher;
  }

  /** Checks that open deliveries keep their bodies and history entries after a removal. */
  checkKept(): void {
    const { db } = this.#core.deps.sharedStore;
    const bodiless = db.all<{ stream: string; event: string }>`
      select d.stream, d.event_id as event from deliveries d
      where d.body is null
        and not exists (select 1 from events e where e.tenant = d.tenant and e.offset = d.offset)
        and not exists (
          select 1 from kept_events k where k.tenant = d.tenant and k.offset = d.offset)`;
    for (const { stream, event } of bodiless) {
      this.#core.violate(
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
      this.#core.violate(
        'explained',
        `the failure of ${event} of ${labelOf(stream)} has no history`,
      );
    }
  }

  attemptsRecorded(): number {
    return (
      this.#core.deps.sharedStore.db.get<{
        count: number;
      }>`select count(*) as count from attempts`?.count ?? 0
    );
  }

  /** Notes a change of the model's failures of a stream, which a command may change several times. */
  changed(stream: SimulatedStream): void {
    this.#watcher?.note(stream);
  }

  checkStream(streamId: string): void {
    const stream = this.#core.streams.get(streamId);
    if (stream !== undefined && !stream.isDeleted) this.check(stream);
  }

  /** Checks the rows of a stream; `by` may have moved its cursor, up to `to`. */
  check(stream: SimulatedStream, by?: { process: string; epoch: number }, to = Infinity): void {
    const row = this.#core.deps.sharedStore.db.get<RunRow>`
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
      where r.tenant = ${stream.log.tenant} and r.stream = ${stream.id}`;
    if (row === undefined) return this.#core.violate('lost', `${stream.label} is gone`);
    this.#checkCounts(stream, row);
    this.#checkGroups(stream);
    this.checkReplays(stream);
    this.changed(stream);
    this.#watcher?.check(stream);
    this.#checkCursor(stream, row.cursor, by, to);
  }

  checkReplays({ id, label, counts, log }: SimulatedStream): void {
    for (const expected of counts.replays.values()) {
      const row = this.#core.deps.sharedStore.db.get<
        Pick<Replay, 'status' | 'matched' | 'sent' | 'failed'>
      >`
        select status, matched, sent, failed from replays
        where tenant = ${log.tenant} and stream = ${id} and id = ${expected.id}`;
      for (const name of ['status', 'matched', 'sent', 'failed'] as const) {
        const [found, value] = [row?.[name], expected[name]];
        const what = `${name} of ${expected.id} of ${label}`;
        if (found !== value) this.#core.violate('counters', `${what} is ${found}, not ${value}`);
      }
      const { status, matched, sent, failed } = expected;
      if (status !== 'running' && status !== 'cancelled' && matched !== sent + failed) {
        this.#core.violate(
          'lost',
          `${expected.id} found ${matched} and sent ${sent}, failed ${failed}`,
        );
      }
    }
  }

  /** Checks the counters of failures by cause against a count. */
  #checkGroups({ id, label }: SimulatedStream): void {
    const wrong = this.#core.deps.sharedStore.db.get<{ code: string; counted: number }>`
      select error_code as code, sum(count) as counted from (
        select error_code, count from failure_groups where stream = ${id}
        union all
        select error_code, -1 from deliveries where stream = ${id} and failed_at is not null)
      group by error_code having sum(count) <> 0`;
    if (wrong !== undefined)
      this.#core.violate('counters', `${label} has ${wrong.counted} too many of ${wrong.code}`);
  }

  #checkCounts({ label, counts }: SimulatedStream, row: RunRow): void {
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
        this.#core.violate('counters', `${name} of ${label} is ${found}, not ${value}`);
    }
    this.#checkStats(label, counts, row);
  }

  /** Skips the check once the clock of the store was ahead by more than statistics are kept. */
  #checkStats(label: string, counts: model.ModelStream, row: RunRow): void {
    const now = this.#core.deps.now();
    this.#earliest = Math.min(this.#earliest, now);
    this.#hoursLeft ||= now - this.#earliest > statsKeptMs;
    if (this.#hoursLeft) return;
    for (const name of ['delivered', 'failed'] as const) {
      if (row[name] === counts[name]) continue;
      const what = `${name} deliveries of ${label}: ${row[name]}, not ${counts[name]}`;
      this.#core.violate('recorded', what);
    }
  }

  #checkCursor(
    stream: SimulatedStream,
    cursor: number,
    by: { process: string; epoch: number } | undefined,
    to: number,
  ): void {
    const { counts, label } = stream;
    const before = this.cursors.get(stream) ?? 0;
    this.cursors.set(stream, cursor);
    if (cursor < before) this.#core.violate('cursor', `the cursor of ${label} fell to ${cursor}`);
    counts.cursor = cursor;
    if (cursor <= before) return;
    const { owner } = stream;
    if (by !== undefined && (owner?.process !== by.process || owner.epoch !== by.epoch)) {
      this.#core.violate('owner', `${by.process} moved the cursor of ${label}`);
    }
    if (cursor > to)
      this.#core.violate('cursor', `the cursor of ${label} went to ${cursor}, not to ${to}`);
    for (let offset = before + 1; offset <= cursor; offset += 1) this.#checkPassed(stream, offset);
  }

  #checkPassed(stream: SimulatedStream, offset: number): void {
    const event = stream.log.event(offset);
    if (event === undefined)
      return this.#core.violate('cursor', `${stream.label} passed ${offset}, ahead of the log`);
    if (!this.#core.wants(stream, offset) || stream.skipped.has(offset)) return;
    const hasRow = this.#core.deps.sharedStore.db.get`
      select 1 from deliveries
      where tenant = ${stream.log.tenant} and stream = ${stream.id} and event_id = ${event.id}`;
    if (hasRow === undefined && !stream.recorded.has(event.id)) {
      this.#core.violate('cursor', `the cursor of ${stream.label} passed ${event.id} at ${offset}`);
    }
  }

  cursorNow({ id, log: { tenant } }: SimulatedStream): number {
    const { db } = this.#core.deps.sharedStore;
    const row = db.get<{ cursor: number }>`
      select cursor from runs where tenant = ${tenant} and stream = ${id}`;
    return row?.cursor ?? 0;
  }

  /** Returns the first attempt in the table: unlike the model's history it is pruned. */
  firstAt({ id, log: { tenant } }: SimulatedStream, offset: number): number | undefined {
    const { db } = this.#core.deps.sharedStore;
    const row = db.get<{ at: number | null }>`
      select min(a.at) as at from attempts a join runs r on r.key = a.stream_key
      where r.tenant = ${tenant} and r.stream = ${id} and a.event_key = ${offset}`;
    return row?.at ?? undefined;
  }

  /** Returns when a delivery is due. */
  dueAt({ id, log: { tenant } }: SimulatedStream, eventId: string): number | undefined {
    const { db } = this.#core.deps.sharedStore;
    return db.get<{ due_at: number }>`
      select due_at from deliveries
      where tenant = ${tenant} and stream = ${id} and event_id = ${eventId}`?.due_at;
  }

  /** Returns whether the last change is in force: its owner has seen it, or an operator got the response. */
  mustHold(stream: SimulatedStream): boolean {
    const { db } = this.#core.deps.sharedStore;
    const { tenant } = stream.log;
    const row = db.get<{ unseen: number }>`
      select unseen from runs where tenant = ${tenant} and stream = ${stream.id}`;
    return row?.unseen === 0 || stream.knownVersion >= stream.counts.version;
  }
}

/** What follows the failures of streams: their changes in the model, and what the table has in the end. */
interface StreamWatcher {
  note(stream: SimulatedStream): void;
  check(stream: SimulatedStream): void;
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
