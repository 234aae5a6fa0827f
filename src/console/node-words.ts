import type { NodesShown } from '../schemas/nodes.ts';
import { duration } from './parts/numbers.ts';

export type Node = NodesShown['nodes'][number];

/** What is wrong with a node, in words. */
export interface NodeWarning {
  readonly tone: 'warn' | 'bad';
  readonly text: string;
}

/** Beyond it a node hands its streams over and sends an alert (docs/postgres.md). */
const skewMaxMs = 60_000;
/** With less of its lease left a node stops sending. */
const leaseMinMs = 3_000;

/** Returns what is wrong with a node; nothing for most. */
export function warningsOf({ lease_ms: leaseMs, clock_skew_ms: skewMs }: Node): NodeWarning[] {
  return [...leaseWarning(leaseMs), ...skewWarning(skewMs)];
}

function leaseWarning(leaseMs: number): NodeWarning[] {
  if (leaseMs === 0) {
    const text = 'Its lease has ended: it sends nothing, and other nodes take its streams.';
    return [{ tone: 'bad', text }];
  }
  if (leaseMs >= leaseMinMs) return [];
  const text = 'Its lease is nearly over: it does not reach the store, and has stopped sending.';
  return [{ tone: 'warn', text }];
}

function skewWarning(skewMs: number): NodeWarning[] {
  if (Math.abs(skewMs) <= skewMaxMs) return [];
  const text = `Its clock is ${skewWords(skewMs)}: it removes no old rows and hands its streams over. Set the clock.`;
  return [{ tone: 'bad', text }];
}

/** Returns how far the clock of a node is from that of the store. */
export function skewWords(skewMs: number): string {
  if (Math.abs(skewMs) < 1) return 'none';
  return `${duration(Math.abs(skewMs))} ${skewMs > 0 ? 'ahead' : 'late'}`;
}
