import { cycleMaxMs, delaysOf, spreadBounds } from '../core/retry-schedule.ts';
import type { RetryPreset } from '../core/types.ts';
import type { NodeSettingsShown } from '../schemas/node-settings.ts';
import type { DeliveryOptionsSent } from '../schemas/delivery-options.ts';
import { plural } from './parts/numbers.ts';

export type RetrySent = NonNullable<DeliveryOptionsSent['retry']>;

/** When the attempts of one delivery begin. */
export interface AttemptTimes {
  /** Milliseconds after the first attempt, which is 0. */
  readonly timesMs: readonly number[];
  /** Attempts of the schedule that are never made: they would begin after the end of the cycle. */
  readonly beyond: number;
}

/** The end of a cycle, in milliseconds after its first attempt. */
export const cycleMs = cycleMaxMs;

/** Returns the waits of a schedule in seconds. */
export function delaysSecondsOf(retry: RetrySent): readonly number[] {
  const option = typeof retry === 'string' ? retry : { delaysSeconds: retry.delays_seconds };
  return delaysOf(option).map((delayMs) => delayMs / 1000);
}

/** Returns the waits of streams without a schedule, in seconds, by LEAT_RETRY or else LEAT_RETRY_DELAYS_MS. */
export function serviceDelays(
  settings: readonly Pick<NodeSettingsShown['settings'][number], 'name' | 'value' | 'is_default'>[],
): readonly number[] | undefined {
  const textOf = (wanted: string) => settings.find(({ name }) => name === wanted);
  const retry = textOf('LEAT_RETRY');
  if (retry !== undefined && !retry.is_default && retry.value !== null) {
    const { value } = retry;
    return isPreset(value) ? delaysSecondsOf(value) : value.split(',').map(Number);
  }
  const delays = textOf('LEAT_RETRY_DELAYS_MS')?.value ?? undefined;
  return delays?.split(',').map((ms) => Number(ms) / 1000);
}

function isPreset(text: string): text is RetryPreset {
  return Object.hasOwn(presets, text);
}

/** Returns when the attempts of a delivery begin that fails each time. */
export function attemptTimes(delaysSeconds: readonly number[]): AttemptTimes {
  const all = delaysSeconds.reduce<number[]>(
    (times, delay) => [...times, (times.at(-1) ?? 0) + delay * 1000],
    [0],
  );
  const timesMs = all.filter((timeMs) => timeMs <= cycleMaxMs);
  return { timesMs, beyond: all.length - timesMs.length };
}

/** Returns where a time is between the beginning and the end of a cycle, 0 to 1, early times wide apart. */
export function placeOf(timeMs: number): number {
  return Math.log(1 + timeMs / 1000) / Math.log(1 + cycleMaxMs / 1000);
}

const presets = {
  quick: 'Quick',
  hours: 'Hours',
  days: 'Days',
} as const satisfies Record<RetryPreset, string>;

/** Returns a schedule in words; without one that of the service holds, which is not known to everybody. */
export function retryWords(
  retry: RetrySent | undefined,
  ofService: readonly number[] | undefined,
): string {
  const delays = retry === undefined ? ofService : delaysSecondsOf(retry);
  if (delays === undefined)
    return 'As LEAT_RETRY or LEAT_RETRY_DELAYS_MS says, 1, 2 and 4 s unless one is set';
  const name = retry === undefined ? 'Of the service: ' : nameOf(retry);
  const { timesMs } = attemptTimes(delays);
  const last = span((timesMs.at(-1) ?? 0) / 1000);
  const within = delays.some(isSpread) ? `within about ${last}` : `within ${last}`;
  return `${name}${plural(timesMs.length, 'attempt')} ${within}, after ${delays.map(span).join(', ')}`;
}

function isSpread(delaySeconds: number): boolean {
  const { minMs, maxMs } = spreadBounds(delaySeconds * 1000);
  return minMs < maxMs;
}

function nameOf(retry: RetrySent): string {
  return typeof retry === 'string' ? `${presets[retry]}: ` : '';
}

const units = [
  { seconds: 86_400, name: 'd' },
  { seconds: 3600, name: 'h' },
  { seconds: 60, name: 'min' },
  { seconds: 1, name: 's' },
] as const;

/** Returns seconds in the two largest units that they have: `1 h 30 min`. */
export function span(seconds: number): string {
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const parts: string[] = [];
  let rest = Math.round(seconds);
  for (const { seconds: size, name } of units) {
    const many = Math.floor(rest / size);
    rest -= many * size;
    if (many > 0) parts.push(`${many} ${name}`);
  }
  return parts.length === 0 ? '0 s' : parts.slice(0, 2).join(' ');
}

/** Returns waits as a person writes them: `5 s, 1 min, 2 h`. */
export function writeDelays(delaysSeconds: readonly number[]): string {
  return delaysSeconds.map(writeDelay).join(', ');
}

function writeDelay(seconds: number): string {
  const unit = units.find(({ seconds: size }) => seconds % size === 0 && seconds >= size);
  return unit === undefined ? `${seconds} s` : `${seconds / unit.seconds} ${unit.name}`;
}

const unitSeconds: Readonly<Record<string, number>> = {
  '': 1,
  s: 1,
  sec: 1,
  m: 60,
  min: 60,
  h: 3600,
  d: 86_400,
};

/** Reads what {@link writeDelays} writes; a number without a unit is seconds. */
export function readDelays(
  text: string,
): { readonly delays: readonly number[] } | { readonly problem: string } {
  const words = text
    .split(/[,;\n]/)
    .map((word) => word.trim())
    .filter((word) => word !== '');
  const delays: number[] = [];
  for (const word of words) {
    const groups = /^(?<many>\d+(?:\.\d+)?)\s*(?<unit>[a-z]*)$/i.exec(word)?.groups;
    const unit = unitSeconds[groups?.['unit']?.toLowerCase() ?? ''];
    const seconds = Number(groups?.['many']) * (unit ?? Number.NaN);
    if (!Number.isInteger(seconds)) {
      return { problem: `“${word}” is no wait: write whole seconds, or 5 s, 1 min, 2 h` };
    }
    if (seconds < 1 || seconds > 86_400) return { problem: `“${word}”: a wait has 1 s to 24 h` };
    delays.push(seconds);
  }
  if (delays.length === 0) return { problem: 'Write at least one wait' };
  if (delays.length > 20) return { problem: `${delays.length} waits: there may be 20` };
  return { delays };
}
