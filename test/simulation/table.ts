import type { Outcome } from './play.ts';
import type { Plan } from './plan.ts';
import { promises } from './promises.ts';

/** A history as people read it: what was planned, what happened, and which promise was broken. */
export function historyTable(plan: Plan, { history, broken }: Outcome): string {
  const width = Math.max(4, ...history.map(({ who }) => who.length));
  const rows = history.map(
    ({ atMs, who, what }) => `${String(atMs).padStart(7)}  ${who.padEnd(width)}  ${what}`,
  );
  const head = `${'ms'.padStart(7)}  ${'who'.padEnd(width)}  what`;
  return [...planLines(plan), '', head, ...rows, '', ...resultText(broken)].join('\n');
}

function planLines({ seed, nodes, streams, steps, weather, settings }: Plan): string[] {
  const faults = Object.entries(weather).filter(([, value]) => Number(value) > 0);
  const { streamConcurrency, concurrency, parkAfterMs, parkAfterEvents, disable } = settings;
  return [
    `Seed ${seed}: ${steps.length} steps, ${streams.length} streams, ${nodes} nodes.`,
    `Weather: ${faults.map(([name, value]) => `${name} ${value}`).join(', ') || 'calm'}.`,
    `Slots: ${streamConcurrency} a stream, ${concurrency} a node. Parked after ${parkAfterMs} ms or ${parkAfterEvents} events. ` +
      `Disabled at ${disable.consecutive} consecutive or ${disable.total} open failures.`,
  ];
}

function resultText(broken: Outcome['broken']): string[] {
  if (broken === undefined) return ['Every promise was kept.'];
  const { promise, atMs, how } = broken;
  return [`Broken after ${atMs} ms: ${promises[promise]}.`, `  ${how}`];
}
