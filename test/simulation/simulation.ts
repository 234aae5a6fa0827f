import type { Oracle } from './oracle.ts';
import type { Line } from './line.ts';
import type { NameMood } from './names.ts';
import type { Mood, Plan, Weather } from './plan.ts';
import type { SharedStore } from './shared-store.ts';
import type { UpkeepLease } from './upkeep.ts';
import type { Timeline } from './timeline.ts';

/** What the processes of one history share. */
export interface Simulation {
  readonly plan: Plan;
  readonly timeline: Timeline;
  readonly sharedStore: SharedStore;
  readonly oracle: Oracle;
  readonly upkeepLease: UpkeepLease;
  /** What the time is for the store. */
  now(): number;
  /** How much longer than by the rules a wait may take, because of the store's clock. */
  clockDelayMs(waitMs: number): number;
  /** As it is now: calm once faults have stopped. */
  weather(): Weather;
  isStoreAway(): boolean;
  moodOf(line: Line): Mood;
  nameMoodOf(line: Line): NameMood;
  /** How every receiver responds while there are no faults; `well` at first. */
  setLullMood(mood: Mood): void;
  /** Which receivers hang, or whose names are not found, whatever their mood is. */
  setHanging(hangs: (line: Line) => boolean, what?: 'receiver' | 'name'): void;
  /** A fault has happened, whose consequences take a while; see `deadlines.ts`. */
  disturb(): void;
  /** A command or a hint takes long, or a hint is lost. */
  hinder(): void;
  /** A receiver in a bad mood was sent something. */
  unwell(line: Line): void;
  /** Writes a line of the history, when somebody wants to read it. */
  note(who: string, what: string): void;
  /** A short name for an id: `e12`, `s1`. */
  label(id: string): string;
}

/** One line of a history. */
export interface Entry {
  readonly atMs: number;
  readonly who: string;
  readonly what: string;
}

export const calm: Weather = {
  slow: 0,
  slowMs: 0,
  slowPages: 0,
  refused: 0,
  unanswered: 0,
  hintsLost: 0,
  hintsRepeated: 0,
  hintsLate: 0,
  unstorable: 0,
};

export const labelOf = (id: string): string =>
  id.replace(/^e(v|s)t_0*(\d+)$/, (_, kind, number) => `${kind === 'v' ? 'e' : 's'}${number}`);
