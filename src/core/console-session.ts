import type { Millis } from './clock.ts';
import { hourMs, minuteMs } from './units.ts';

/** What a person may do in the console. */
export type ConsoleRole = 'viewer' | 'support' | 'operator';

export const consoleRoles: readonly ConsoleRole[] = ['viewer', 'support', 'operator'];

/** A session of the console, as the store has it; never its secret. */
export interface ConsoleSession {
  /** `ses_…` as makeId of ids.ts: shown in lists and in the audit log; grants nothing. */
  readonly id: string;
  readonly tenant: number;
  readonly role: ConsoleRole;
  /**
   * Who signed in: the e-mail address, name or subject at the provider; `one-time link` otherwise.
   * At most 256 characters.
   */
  readonly user: string;
  /** The entry of LEAT_CONSOLE_ROLES that gave the role; absent for one-time links. */
  readonly mapping: string | undefined;
  readonly createdAt: Millis;
  /** Last use, a minute exact. */
  readonly usedAt: Millis;
  /** When it ends without further use, by {@link endOfSession}. */
  readonly endsAt: Millis;
}

/** Limits of sessions and one-time codes; all times are by the clock of the store. */
export const consoleLimits = {
  /** How long a one-time code is valid. */
  codeMs: 10 * minuteMs,
  /** A session ends after this time without use… */
  idleMs: hourMs,
  /** …and this time after its beginning, although it is used. */
  lifeMs: 12 * hourMs,
  /** A use is recorded once in this time; all others write nothing. */
  useEveryMs: minuteMs,
  /** Open sessions of a tenant; another one ends the oldest. */
  sessionsMax: 1000,
  /** Those of one person of the identity provider: nobody signs all others out by signing in. */
  ofUserMax: 20,
  /** Open one-time codes of a tenant; another one removes the oldest. */
  codesMax: 100,
} as const;

/** Returns when a session ends that is not used after `usedAt`. */
export function endOfSession(createdAt: Millis, usedAt: Millis): Millis {
  return Math.min(usedAt + consoleLimits.idleMs, createdAt + consoleLimits.lifeMs);
}
