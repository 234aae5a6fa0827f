import type { Setting } from '../core/setting.ts';
import { httpUrl, mailAddress, smtpUrl, wholeNumber } from '../core/value.ts';

/** Where alerts are sent, and how often failures are checked. */
export const alertingSettings = {
  alertWebhookUrl: {
    variable: 'LEAT_ALERT_WEBHOOK_URL',
    parse: httpUrl,
    example: 'https://hooks.example.com/T0/B0',
    doc: 'where alerts are posted',
    secret: 'path',
  },
  alertEmail: {
    variable: 'LEAT_ALERT_EMAIL',
    parse: mailAddress,
    example: 'ops@example.com',
    doc: 'where alerts are mailed, together with LEAT_SMTP_URL',
  },
  smtpUrl: {
    variable: 'LEAT_SMTP_URL',
    parse: smtpUrl,
    example: 'smtp://mail.example.com:587',
    doc: 'the server that mails alerts',
    secret: 'user info',
  },
  monitorIntervalSeconds: {
    variable: 'LEAT_MONITOR_INTERVAL_SECONDS',
    parse: wholeNumber(1, 86_400),
    fallback: '300',
    doc: 'seconds between two checks of the failures',
  },
} as const satisfies Record<string, Setting>;

/** The monitor, which checks failures and streams for alerts. */
export const monitorLimits = {
  /** Lease on a tenant's check; another node takes over when it expires. */
  leaseMs: 30_000,
  /** Failures of one read, each with its event. */
  pageFailures: 50,
} as const;

/** Sending alerts. */
export const alertLimits = {
  /** Concurrent sends per channel. */
  concurrency: 4,
  timeoutMs: 10_000,
  /** Consecutive failures after which a channel is skipped until the next run. */
  failuresInARowMax: 16,
  /** Time budget for sending per run; unsent alerts wait for the next run. */
  runMs: 60_000,
  /** Interval at which sent alerts are recorded during a run. */
  saveEveryMs: 5_000,
  /** Grace period for sends in progress when the service stops. */
  closingMs: 3_000,
} as const;
