import { alertChannels, type ChannelSettingKey } from '../core/alert-channels.ts';
import type { Setting } from '../core/setting.ts';
import { httpUrl, mailAddress, smtpUrl, wholeNumber } from '../core/value.ts';

const parsers = { URL: httpUrl, address: mailAddress };

/** The settings of the channels, by their names. */
const channelSettings = Object.fromEntries(
  Object.values(alertChannels).flatMap(({ setting }) => {
    if (setting === undefined) return [];
    const { key, value, ...rest } = setting;
    return [[key, { ...rest, parse: parsers[value] }]];
  }),
) as Readonly<Record<ChannelSettingKey, Setting<string>>>;

/** Where alerts are sent, and how often failures are checked. */
export const alertingSettings = {
  ...channelSettings,
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
