import { setTimeout as sleep } from 'node:timers/promises';
import { keyedEventId } from '../../src/core/ids.ts';
import type { Quota } from './quota.ts';
import type { Running } from './leat.ts';

/** A client that records every response, and compares what it was told with the log afterwards. */
export interface Ledger {
  /**
   * Publishes until the quota is used up or `until` is aborted, at the node that runs by then. One publisher
   * goes on without a quota, so that at every time one shows what publishers meet.
   */
  publish(node: () => Running, quota: Quota, until: AbortSignal): Promise<void>;
  /**
   * Checks once in a while that readiness and metric say what publishers meet. A reading counts when publishers
   * met the same some seconds before and after it. `during` names the fault for the result.
   */
  watch(
    node: () => Running,
    metricsPort: number,
    during: () => string,
    until: AbortSignal,
  ): Promise<void>;
  /** Compares with the ids that the log has. */
  result(stored: ReadonlySet<string>): LedgerResult;
}

export interface LedgerResult {
  readonly requests: number;
  readonly acknowledged: number;
  /** Events of 202 that the log does not have. */
  readonly missing: number;
  /** 503 without `unknown`. */
  readonly refused: number;
  /** Events of those that the log has. */
  readonly storedThoughRefused: number;
  readonly unknown: number;
  readonly storedOfUnknown: number;
  /** Requests without a response: the connection or the process ended. */
  readonly unanswered: number;
  /** Responses of another status, by status. */
  readonly others: Readonly<Record<string, number>>;
  readonly slowestRefusalMs: number;
  /** Checks of readiness and metric while publishers met the same for some seconds, and what was wrong. */
  readonly checks: { readonly failing: number; readonly serving: number };
  readonly contradictions: readonly string[];
}

/** What publishers met for this long has to show. */
const shownMs = 5000;
/** For the way of the responses on a busy machine. */
const slackMs = 2000;
/** A store recovers a moment before publishers notice: what is read then is compared with nothing. */
const unchangedMs = 5000;
/** Publishers that are served are so several times in this time. */
const gapMs = 1000;
const publishers = 24;

/** What readiness and metric said at one time. */
interface Reading {
  readonly beganMs: number;
  readonly endedMs: number;
  /** The last publish that was acknowledged before. */
  readonly acknowledgedMs: number;
  /** Since when publishers were served without a gap, by then. */
  readonly servedSinceMs: number;
  /** What is wrong with it while no publish succeeds, and while all do. */
  readonly whileFailing: readonly string[];
  readonly whileServing: readonly string[];
}

export function createLedger(): Ledger {
  const ids = { acknowledged: [] as string[], refused: [] as string[], unknown: [] as string[] };
  const counts = { requests: 0, refused: 0, unknown: 0, unanswered: 0 };
  const others: Record<string, number> = {};
  const checks = { failing: 0, serving: 0 };
  const contradictions: string[] = [];
  let slowestRefusalMs = 0;
  let made = 0;
  const startedMs = performance.now();
  const last = {
    acknowledgedMs: startedMs,
    servedSinceMs: startedMs,
    refusedMs: 0,
    unansweredMs: 0,
  };
  const troubleMs = (): number => Math.max(last.refusedMs, last.unansweredMs);

  const record = async (response: Response, sent: readonly string[], sentMs: number) => {
    const text = await response.text();
    const nowMs = performance.now();
    if (response.status === 202) {
      const isGap = nowMs - last.acknowledgedMs > gapMs || troubleMs() > last.servedSinceMs;
      if (isGap) last.servedSinceMs = nowMs;
      last.acknowledgedMs = nowMs;
      ids.acknowledged.push(...sent);
      return true;
    }
    if (response.status === 503) {
      last.refusedMs = nowMs;
      slowestRefusalMs = Math.max(slowestRefusalMs, nowMs - sentMs);
      const isUnknown = (JSON.parse(text) as { unknown?: boolean }).unknown === true;
      counts[isUnknown ? 'unknown' : 'refused'] += 1;
      ids[isUnknown ? 'unknown' : 'refused'].push(...sent);
    } else others[response.status] = (others[response.status] ?? 0) + 1;
    return false;
  };
  const publishOnce = async (node: Running): Promise<boolean> => {
    const { sent, body, type } = requestOf((made += 1));
    counts.requests += 1;
    const sentMs = performance.now();
    try {
      const headers = { 'content-type': type };
      const response = await node.send('POST', '/api/v2/events', body, headers);
      return await record(response, sent, sentMs);
    } catch {
      counts.unanswered += 1;
      last.unansweredMs = performance.now();
      return false;
    }
  };
  const read = async (node: Running, metricsPort: number, during: string): Promise<Reading> => {
    const beganMs = performance.now();
    const { acknowledgedMs, servedSinceMs } = last;
    const ready = await fetch(`${node.url}/readyz`);
    const { message = '' } = (await ready.json()) as { message?: string };
    const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    const isFailing = metrics.includes('\nleat_store_failing 1');
    const whileFailing = [
      ...(ready.ok ? [`${during}: no publish succeeds, and the node is ready`] : []),
      ...(isFailing ? [] : [`${during}: no publish succeeds, and leat_store_failing is 0`]),
    ];
    const whileServing = [
      ...(ready.ok ? [] : [`${during}: every publish succeeds, the node is not ready: ${message}`]),
      ...(isFailing ? [`${during}: every publish succeeds, and leat_store_failing is 1`] : []),
    ];
    const endedMs = performance.now();
    return { beganMs, endedMs, acknowledgedMs, servedSinceMs, whileFailing, whileServing };
  };
  /** Judges a reading once it is known that publishers met the same before it, during it and after it. */
  const checkReading = (reading: Reading): void => {
    const { beganMs, acknowledgedMs, servedSinceMs } = reading;
    const enoughMs = shownMs + slackMs;
    const hasFailed = last.acknowledgedMs === acknowledgedMs && last.unansweredMs < acknowledgedMs;
    if (hasFailed && beganMs - acknowledgedMs > enoughMs) {
      checks.failing += 1;
      contradictions.push(...reading.whileFailing);
    }
    const isServed = performance.now() - last.acknowledgedMs < gapMs && troubleMs() < servedSinceMs;
    if (isServed && last.servedSinceMs === servedSinceMs && beganMs - servedSinceMs > enoughMs) {
      checks.serving += 1;
      contradictions.push(...reading.whileServing);
    }
  };

  return {
    publish: async (node, quota, until) => {
      const publisher = async (): Promise<void> => {
        while ((await quota.take(1, until)) > 0) {
          if (!(await publishOnce(node()))) await sleep(20);
        }
      };
      const endless = async (): Promise<void> => {
        while (!until.aborted) {
          await publishOnce(node());
          await sleep(200);
        }
      };
      await Promise.all([endless(), ...Array.from({ length: publishers }, publisher)]);
    },
    watch: async (node, metricsPort, during, until) => {
      let readings: Reading[] = [];
      while (!until.aborted) {
        const reading = await read(node(), metricsPort, during()).catch(() => undefined);
        if (reading !== undefined) readings.push(reading);
        const isDue = ({ endedMs }: Reading) => performance.now() - endedMs > unchangedMs;
        readings.filter(isDue).forEach(checkReading);
        readings = readings.filter((kept) => !isDue(kept));
        await sleep(500);
      }
    },
    result: (stored) => {
      const storedOf = (list: readonly string[]): number =>
        list.filter((id) => stored.has(id)).length;
      return {
        ...counts,
        acknowledged: ids.acknowledged.length,
        missing: ids.acknowledged.length - storedOf(ids.acknowledged),
        storedThoughRefused: storedOf(ids.refused),
        storedOfUnknown: storedOf(ids.unknown),
        others,
        slowestRefusalMs: Math.round(slowestRefusalMs),
        checks,
        contradictions,
      };
    },
  };
}

/** Returns a single event, an array, a CloudEvent or a batch of them in turn, and the ids of the events. */
function requestOf(number: number): { sent: string[]; body: object; type: string } {
  const eventOf = (part: number) => ({
    type: 'order.paid',
    data: { number },
    id: `evt_${String(number * 10 + part).padStart(22, '0')}`,
  });
  const cloudEventOf = (part: number) => ({
    specversion: '1.0',
    source: 'urn:faults',
    id: `${number}-${part}`,
    type: 'order.paid',
    data: { number },
  });
  const parts = [0, 1, 2, 3, 4];
  const keyOf = (part: number) => keyedEventId(['urn:faults', `${number}-${part}`]);
  const forms = [
    () => ({ sent: [eventOf(0).id], body: eventOf(0), type: 'application/json' }),
    () => ({
      sent: parts.map((part) => eventOf(part).id),
      body: parts.map(eventOf),
      type: 'application/json',
    }),
    () => ({ sent: [keyOf(0)], body: cloudEventOf(0), type: 'application/cloudevents+json' }),
    () => ({
      sent: parts.map(keyOf),
      body: parts.map(cloudEventOf),
      type: 'application/cloudevents-batch+json',
    }),
  ];
  // Three of four requests are single events.
  const form = number % 4 === 0 ? 1 + ((number / 4) % 3) : 0;
  return (forms[form] as () => { sent: string[]; body: object; type: string })();
}
