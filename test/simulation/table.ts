import type { Outcome } from './play.ts';
import type { Plan } from './plan.ts';
import { guarantees } from './guarantees.ts';

/** Returns a history as text: the plan, each action, and which guarantee was violated. */
export function historyTable(plan: Plan, { history, violation }: Outcome): string {
  const width = Math.max(4, ...history.map(({ who }) => who.length));
  const rows = history.map(
    ({ atMs, who, what }) => `${String(atMs).padStart(7)}  ${who.padEnd(width)}  ${what}`,
  );
  const head = `${'ms'.padStart(7)}  ${'who'.padEnd(width)}  what`;
  return [...planLines(plan), '', head, ...rows, '', ...resultText(violation)].join('\n');
}

function planLines({ seed, nodes, streams, steps, faultRates, settings }: Plan): string[] {
  const faults = Object.entries(faultRates).filter(([, value]) => Number(value) > 0);
  const { streamConcurrency, concurrency, parkAfterMs, parkAfterEvents, disable } = settings;
  return [
    `Seed ${seed}: ${steps.length} steps, ${streams.length} streams, ${nodes} nodes.`,
    `Fault rates: ${faults.map(([name, value]) => `${name} ${value}`).join(', ') || 'none'}.`,
    `Slots: ${streamConcurrency} a stream, ${concurrency} a node. Parked after ${parkAfterMs} ms or ${parkAfterEvents} events. ` +
      `Disabled at ${disable.consecutive} consecutive or ${disable.total} open failures.`,
  ];
}

function resultText(violation: Outcome['violation']): string[] {
  if (violation === undefined) return ['Every guarantee held.'];
  const { guarantee, atMs, how } = violation;
  return [`Violated after ${atMs} ms: ${guarantees[guarantee]}.`, `  ${how}`];
}
