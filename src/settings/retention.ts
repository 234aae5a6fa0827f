import type { Setting } from '../core/setting.ts';
import { wholeNumber } from '../core/value.ts';

/** How long events, attempts and entries of the audit log are stored. */
export const retentionSettings = {
  eventRetentionDays: {
    variable: 'LEAT_EVENT_RETENTION_DAYS',
    parse: wholeNumber(1, 3650),
    fallback: '7',
    doc: 'days that events stay in the log; undelivered events of an enabled stream stay longer',
  },
  attemptRetentionDays: {
    variable: 'LEAT_ATTEMPT_RETENTION_DAYS',
    parse: wholeNumber(1, 3650),
    fallback: '3',
    doc: 'days that attempts of delivered events are stored',
  },
  logRetentionDays: {
    variable: 'LEAT_LOG_RETENTION_DAYS',
    parse: wholeNumber(1, 3650),
    fallback: '30',
    doc: 'days that entries of the audit log are stored',
  },
  lagMaxDays: {
    variable: 'LEAT_LAG_MAX_DAYS',
    parse: wholeNumber(1, 3650),
    fallback: '30',
    doc: 'an enabled event stream whose oldest undelivered event is older is disabled; alerts at 50, 75 and 90 %',
  },
} as const satisfies Record<string, Setting>;

/** Upkeep: removes what is older than the retention. */
export const upkeepLimits = {
  everyMs: 60_000,
  /** Lease on upkeep; another node takes over when it expires. */
  leaseMs: 60_000,
  /** Rows per transaction, so that other work never waits long. */
  stepRows: 500,
} as const;
