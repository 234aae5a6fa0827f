import { alertBody } from './alert.ts';
import type { Clock } from '../core/clock.ts';
import type { AlertChannel } from './channel.ts';
import { createYield } from '../core/sleep.ts';

export interface AlertLog {
  error(fields: object, message: string): void;
}

/** Where alerts go that nobody has named a place for: one log entry of level error each. */
export function createAlertLog(
  log: AlertLog,
  clock: Pick<Clock, 'after' | 'elapsedMs'>,
): AlertChannel {
  const rest = createYield(clock);
  return {
    name: 'log',
    send: async ({ alert }, signal) => {
      const { text, ...body } = alertBody(alert);
      log.error({ alert: body }, text);
      await rest(signal);
    },
  };
}
