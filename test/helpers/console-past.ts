import { DatabaseSync } from 'node:sqlite';
import { CountsSum, startOf, type StoredCounts, unitMs } from '../../src/core/delivery-stats.ts';
import { Histogram } from '../../src/core/histogram.ts';
import { dayMs, hourMs, minuteMs } from '../../src/core/units.ts';
import { expectBody, type Leat, publishAll } from './api-client.ts';
import { createEventSource, createRandom } from './console-events.ts';
import { type StreamKey, streamKeys, typesOf } from './console-streams.ts';

/**
 * A past for a service that has just been filled: events and statistics of weeks, which no request can
 * create. They are written to the SQLite file while no service runs on it.
 */

/** Events of the past, and those of them that `search-index` has not passed. */
const pastEvents = 480;
const pastWaiting = 60;
/** Within the retention of events. */
const pastMs = 6 * dayMs;
/** The age of the oldest one that waits. */
const waitingMs = 50 * minuteMs;

export interface Past {
  /** Offset of the last event that `search-index` has passed. */
  readonly passed: string;
}

/** Publishes the events of the past, to which no stream subscribes yet. */
export async function publishPast(
  leat: Leat,
  { seed, now }: { readonly seed: number; readonly now: number },
): Promise<Past> {
  const source = createEventSource(seed + 1);
  const types = ['order.paid', 'payment.captured', 'invoice.issued', 'stock.counted', 'order.paid'];
  const events = Array.from({ length: pastEvents }, (_, index) => {
    const isWaiting = index >= pastEvents - pastWaiting;
    const type = isWaiting ? 'product.updated' : (types[index % types.length] ?? '');
    const time = new Date(publishedAt(index, now)).toISOString();
    return { ...source.next(type), time };
  });
  const ids = await publishAll(leat, events);
  const path = `/api/v2/event-log/${ids.at(-pastWaiting - 1) ?? ''}`;
  const { offset } = await expectBody<{ offset: string }>(200, leat.send('GET', path));
  return { passed: offset };
}

/** Returns when an event of the past was accepted; it never falls along the log. */
function publishedAt(index: number, now: number): number {
  const before = pastEvents - pastWaiting;
  if (index < before) return now - pastMs + Math.floor((index * (pastMs - hourMs)) / before);
  return now - waitingMs + (index - before) * 1000;
}

/** Writes the past of the streams into the file of a service that was stopped. */
export function writePast(
  file: string,
  ids: Readonly<Record<StreamKey, string>>,
  { seed, now }: { readonly seed: number; readonly now: number },
): void {
  const db = new DatabaseSync(file);
  try {
    db.exec('begin');
    moveEvents(db, now);
    for (const key of streamKeys) writeDeliveries(db, { key, id: ids[key], now });
    writeStats(db, ids, { seed, now });
    db.exec('commit');
  } finally {
    db.close();
  }
}

function moveEvents(db: DatabaseSync, now: number): void {
  const offsets = db.prepare('select "offset" from events order by "offset" limit ?');
  const move = db.prepare('update events set published_at = ? where "offset" = ?');
  for (const [index, row] of offsets.all(pastEvents).entries()) {
    move.run(publishedAt(index, now), Number(row['offset']));
  }
  db.exec(`update streams set created_at = created_at - ${30 * dayMs}`);
}

/** Deliveries of the past that failed, as a condition over an event `e`; the others succeeded. */
function failedSql(key: StreamKey, now: number): string {
  if (key !== 'warehouse-orders') return 'false';
  return `e.type = 'order.paid' and e.published_at > ${now - failedMs} and e."offset" % 3 = 0`;
}

/** The age of the oldest open failure. */
const failedMs = 60 * hourMs;

/** Gives the events of the past that a stream wants an attempt each, and the stream an older beginning. */
function writeDeliveries(
  db: DatabaseSync,
  { key, id, now }: { readonly key: StreamKey; readonly id: string; readonly now: number },
): void {
  const types = typesOf(key);
  const wanted = `r.stream = ? and e."offset" <= r.cursor and e.type in (${types.map(() => '?').join()})`;
  const isFailed = failedSql(key, now);
  db.prepare('update runs set first_offset = 0 where stream = ?').run(id);
  db.prepare(
    `insert into attempts (stream_key, event_key, at, duration_ms, outcome, status, error)
    select r.key, e."offset", e.published_at + 40 + e."offset" % 37, 20 + e."offset" % 31,
      case when ${isFailed} then 2 else 1 end, case when ${isFailed} then 503 else 204 end,
      case when ${isFailed} then '503 - the warehouse counts its stock' end
    from runs r, events e where ${wanted} order by e."offset"`,
  ).run(id, ...types);
  db.prepare(
    `insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt,
      failed_at, error_code)
    select 1, r.stream, e.id, e."offset", e.type, e.time, 'first', 'failed', 1,
      e.published_at + 80, 'http_503'
    from runs r, events e where ${wanted} and ${isFailed}`,
  ).run(id, ...types);
  db.prepare(
    `update runs set total_failures = (select count(*) from deliveries d where d.stream = runs.stream)
    where stream = ?`,
  ).run(id);
}

// Statistics

interface Rhythm {
  /** Events in the busiest hour, in twenties: what fills the service should not tower above them. */
  readonly peak: number;
  /** Part of the deliveries that fail all the time. */
  readonly failing?: number;
  /** Hours before now: from and to. */
  readonly outages?: readonly (readonly [number, number])[];
  readonly latencyMs?: number;
}

/** Streams without one were created lately. */
const rhythms: Partial<Readonly<Record<StreamKey, Rhythm>>> = {
  billing: { peak: 420 },
  'audit-archive': { peak: 1900, latencyMs: 25 },
  'warehouse-orders': {
    peak: 900,
    outages: [
      [52, 55],
      [0, 0.6],
    ],
  },
  'crm-contacts': {
    peak: 310,
    failing: 0.02,
    outages: [
      [4, 6],
      [98, 99],
    ],
  },
  'search-index': { peak: 360, latencyMs: 900 },
  'email-campaigns': { peak: 150 },
  'fraud-scoring': { peak: 240, failing: 0.01, latencyMs: 450, outages: [[0, 1]] },
  'inventory-sync': { peak: 700, latencyMs: 80 },
  'shipping-notifications': {
    peak: 260,
    outages: [
      [1, 3],
      [52, 54],
    ],
  },
  'subscription-renewals': { peak: 60 },
  'long-name': { peak: 45 },
  unicode: { peak: 380, latencyMs: 35 },
};

/** Days before those that have hours. */
const daysBefore = 60;
const hoursBefore = 8 * 24;

/**
 * Inserts the units themselves, finished: minutes of the last day, hours of a week, and days; what
 * would have added them up is set to the beginning of the present ones.
 */
function writeStats(
  db: DatabaseSync,
  ids: Readonly<Record<StreamKey, string>>,
  { seed, now }: { readonly seed: number; readonly now: number },
): void {
  const random = createRandom(seed + 2);
  const insert = db.prepare(
    `insert into delivery_stats (tenant, stream, unit, starts_at, writer, published, delivered, failed,
      retried, latency, duration)
    values (1, ?, ?, ?, 'past', ?, ?, ?, ?, ?, ?) on conflict do nothing`,
  );
  const hourly = db.prepare(
    `insert into stream_stats (tenant, stream, hour, delivered, failed) values (1, ?, ?, ?, ?)
    on conflict do nothing`,
  );
  // What was counted until now belongs to the past.
  db.exec('delete from delivery_stats');
  const hour = startOf('hour', now);
  const day = startOf('day', now);
  for (const [unit, from, to] of [
    ['minute', startOf('minute', now) - dayMs, startOf('minute', now)],
    ['hour', hour - hoursBefore * hourMs, hour],
    ['day', day - daysBefore * dayMs, day],
  ] as const) {
    for (let at = from; at < to; at += unitMs[unit]) {
      const total = new CountsSum();
      let published = 0;
      for (const key of streamKeys) {
        const rhythm = rhythms[key];
        if (rhythm === undefined) continue;
        const counts = countsOf(rhythm, { at, spanMs: unitMs[unit], now }, random);
        total.add(counts);
        published += Math.ceil((counts.delivered + counts.failed) * 0.6);
        insert.run(ids[key], unit, at, ...valuesOf(counts));
        if (unit === 'hour') hourly.run(ids[key], at, counts.delivered, counts.failed);
      }
      insert.run('', unit, at, ...valuesOf({ ...total.stored(), published }));
    }
  }
  const sums = db.prepare(
    `insert into delivery_stats_sums (unit, starts_at, last_tenant, last_stream) values (?, ?, 0, '')
    on conflict (unit) do update set starts_at = excluded.starts_at, last_tenant = 0, last_stream = ''`,
  );
  sums.run('hour', hour);
  sums.run('day', day);
}

function valuesOf(counts: StoredCounts): [number, number, number, number, string, string] {
  const { published, delivered, failed, retried, latency, duration } = counts;
  return [published, delivered, failed, retried, latency, duration];
}

interface Span {
  readonly at: number;
  readonly spanMs: number;
  readonly now: number;
}

function countsOf(
  { peak, failing = 0, outages = [], latencyMs = 45 }: Rhythm,
  { at, spanMs, now }: Span,
  random: (below: number) => number,
): StoredCounts {
  // A day has as many events as eleven busy hours.
  const hours = spanMs === dayMs ? 11 : (spanMs / hourMs) * busyness(now - at);
  const events = Math.round(peak * 20 * hours * (0.85 + random(300) / 1000));
  const ago = (now - at) / hourMs;
  const isOut = spanMs < dayMs && outages.some(([from, to]) => ago > from && ago <= to);
  const failed = isOut ? Math.round(events * 0.9) : Math.round(events * failing);
  const retried = failed * 3 + (random(6) === 0 ? Math.round(events * 0.02) : 0);
  const latency = new Histogram();
  const duration = new Histogram();
  const delivered = events - failed;
  for (let n = 0; n < Math.min(delivered, 40); n += 1) {
    const ms = latencyMs * (0.6 + random(100) / 60) * (random(20) === 0 ? 4 : 1);
    latency.add(ms);
    duration.add(ms * 0.7);
  }
  return {
    published: 0,
    delivered,
    failed,
    retried,
    latency: latency.encode(),
    duration: duration.encode(),
  };
}

/**
 * Returns how busy an hour is, up to 1: little at night and on weekends. It is always Wednesday
 * afternoon, so that charts look the same whenever they are made.
 */
function busyness(agoMs: number): number {
  const date = new Date(afternoon - agoMs);
  const hour = date.getUTCHours() + date.getUTCMinutes() / 60;
  const daily = 0.12 + 0.88 * Math.max(0, Math.sin(((hour - 5) / 16) * Math.PI)) ** 1.5;
  const isWeekend = date.getUTCDay() % 6 === 0;
  return isWeekend ? daily * 0.45 : daily;
}

const afternoon = Date.parse('2026-01-14T14:30:00Z');
