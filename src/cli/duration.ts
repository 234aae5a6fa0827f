import { dayMs, hourMs, minuteMs } from '../core/units.ts';

/** Returns a duration with its largest fitting unit and two to three digits: `18 ms`, `1.2 s`, `3.5 h`. */
export function durationText(ms: number): string {
  const [size, unit] = units.find(([each]) => ms >= each) ?? [1, 'ms'];
  const value = ms / size;
  return `${value < 10 && unit !== 'ms' ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

const units: readonly (readonly [number, string])[] = [
  [dayMs, 'd'],
  [hourMs, 'h'],
  [minuteMs, 'min'],
  [1000, 's'],
];
