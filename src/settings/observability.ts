import { type Setting, watchdogSeconds } from '../core/setting.ts';
import { host, oneOf, wholeNumber } from '../core/value.ts';

/** Metrics, logs and the watchdog of the service. */
export const observabilitySettings = {
  metricsHost: {
    variable: 'LEAT_METRICS_HOST',
    parse: host,
    fallback: '127.0.0.1',
    doc: 'address of the metrics listener',
  },
  metricsPort: {
    variable: 'LEAT_METRICS_PORT',
    parse: wholeNumber(1, 65_535),
    example: '9090',
    doc: 'port of the metrics listener; not set: no listener',
  },
  logLevel: {
    variable: 'LEAT_LOG_LEVEL',
    parse: oneOf('debug', 'info', 'warn', 'error'),
    fallback: 'info',
    doc: 'debug, info, warn or error',
  },
  logFormat: {
    variable: 'LEAT_LOG_FORMAT',
    parse: oneOf('auto', 'json', 'text'),
    fallback: 'auto',
    doc: 'json, text, or auto: text on a terminal, else json',
  },
  watchdogSeconds,
} as const satisfies Record<string, Setting>;

/** Size of the metrics. */
export const metricsLimits = {
  /** Streams of a node that have series of their own: of their lag, and of their attempts. */
  streamsMax: 200,
} as const;
