import { alertBody } from './alert.ts';
import type { Clock } from '../core/clock.ts';
import type { AlertSender } from './channel.ts';
import { createBreaks } from '../core/sleep.ts';

export interface AlertLog {
  error(fields: object, message: string): void;
}

/** Where alerts go that nobody has named a place for: one log entry of level error each. */
export function createAlertLog(
  log: AlertLog,
  clock: Pick<Clock, 'after' | 'elapsedMs'>,
): AlertSender {
  const rest = createBreaks(clock);
  return {
    place: 'log',
    send: async ({ alert }, signal) => {
      const { text, ...body } = alertBody(alert);
      log.error({ alert: body }, text);
      await rest(signal);
    },
  };
}
